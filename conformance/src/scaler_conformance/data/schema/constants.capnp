@0xd3a94cb18f27e650;
# Growing sets are constants, not enums: a peer that meets a value it does not know does what the spec says for unknown
# values instead of failing to read the message. (EVO-4)

const roleClient :UInt16 = 1;
const roleWorker :UInt16 = 2;
const roleScheduler :UInt16 = 3;
const roleMonitor :UInt16 = 4;
const roleManager :UInt16 = 5;

const callPacked :UInt16 = 0;
const callSeparate :UInt16 = 1;
const callRaw :UInt16 = 2;

const kindInline :UInt8 = 0;
const kindObject :UInt8 = 1;
const kindTask :UInt8 = 2;   # of a part
const kindNone :UInt8 = 2;   # of a result

const statusSuccess :UInt8 = 0;
const statusFailed :UInt8 = 1;
const statusCanceled :UInt8 = 2;
const statusWorkerLost :UInt8 = 3;
const statusProcessorDied :UInt8 = 4;
const statusTimedOut :UInt8 = 5;
const statusRefused :UInt8 = 6;

const flagProfiling :UInt32 = 1;
const flagStreamOutput :UInt32 = 2;
const taskUnwanted :UInt8 = 1;

const unitStarting :UInt16 = 1;
const unitRunning :UInt16 = 2;
const unitStopping :UInt16 = 3;

const cancelCanceled :UInt8 = 0;
const cancelTooLate :UInt8 = 1;
const cancelUnknown :UInt8 = 2;

const heldQueued :UInt8 = 0;
const heldRunning :UInt8 = 1;
const heldEnded :UInt8 = 2;

const logStdout :UInt16 = 1;
const logStderr :UInt16 = 2;
const logPreparation :UInt16 = 3;

const stackTaken :UInt16 = 0;
const stackUnknown :UInt16 = 1;
const stackNotRunning :UInt16 = 2;
const stackNoAnswer :UInt16 = 3;
const stackNotAllowed :UInt16 = 4;
const stackTooMany :UInt16 = 5;
const stackNotSupported :UInt16 = 6;

const objectOther :UInt16 = 0;
const objectFunction :UInt16 = 1;
const objectResult :UInt16 = 2;
const objectCodeSet :UInt16 = 3;

const controlCancelTask :UInt16 = 1;
const controlCancelClient :UInt16 = 2;
const controlDrainWorker :UInt16 = 3;

const controlDone :UInt16 = 0;
const controlNotAllowed :UInt16 = 1;
const controlNoOperator :UInt16 = 2;
const controlUnknown :UInt16 = 3;

# Error codes (spec chapter 11). 1xx framing, 2xx session, 3xx tasks, 4xx objects, 5xx how tasks end.
const ok :UInt16 = 0;
const badFraming :UInt16 = 100;
const badEnvelope :UInt16 = 101;
const tooLarge :UInt16 = 102;
const unknownMessage :UInt16 = 103;
const badIdentity :UInt16 = 104;
const versionMismatch :UInt16 = 200;
const badRole :UInt16 = 201;
const noSession :UInt16 = 202;
const sequenceGap :UInt16 = 203;
const sessionReplaced :UInt16 = 204;
const leaseExpired :UInt16 = 205;
const unauthorized :UInt16 = 206;
const overloaded :UInt16 = 207;
const shuttingDown :UInt16 = 208;
const badBatch :UInt16 = 300;
const duplicateTask :UInt16 = 301;
const unknownTask :UInt16 = 302;
const notAllowed :UInt16 = 303;
const creditExceeded :UInt16 = 304;
const badGraph :UInt16 = 305;
const quota :UInt16 = 306;
const noSuchObject :UInt16 = 400;
const ownerGone :UInt16 = 401;
const storageFull :UInt16 = 402;
const badChunk :UInt16 = 403;
const unreadableFile :UInt16 = 404;
const storageUnreachable :UInt16 = 405;
const tooMany :UInt16 = 406;
const exists :UInt16 = 407;
const taskRaised :UInt16 = 500;
const taskTimedOut :UInt16 = 501;
const processorDied :UInt16 = 502;
const workerLost :UInt16 = 503;
const taskCanceled :UInt16 = 504;
const dependencyFailed :UInt16 = 505;
const functionUnreadable :UInt16 = 506;
const resultUnreadable :UInt16 = 507;
const tooDeep :UInt16 = 508;
const queueFull :UInt16 = 509;
const memoryLimit :UInt16 = 510;
const codeSetRefused :UInt16 = 511;
const environmentFailed :UInt16 = 512;
