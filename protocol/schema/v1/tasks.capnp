@0xef1e42838e8804af;
# Tasks and their results, in columns. Spec chapters 05 (CLI), 06 (SCH), 08 (BAT), 09 (CAN).
#
# A batch is a struct of arrays: one header shared by all its tasks, then packed little-endian columns, then one payload
# frame with the bytes of all parts, in order. An EMPTY column means "the default for every task". Lengths must agree
# exactly or nothing of the batch is accepted: BAD_BATCH. (BAT-2) The scheduler cuts columns; it never looks into parts.

using Session = import "session.capnp";
using Monitor = import "monitor.capnp";

struct TaskHeader @0xe02cfde95cc5066e {
  # What all tasks of a batch have in common.

  client @0 :Data;
  # 16 bytes: the peerId of the client whose tasks these are, owner of the objects they make. A client may leave it
  # empty in Submit; the scheduler always fills it in Dispatch. (SCH-3)

  callFormat @1 :UInt16 = 0;
  # How parts make a call. 0 PACKED: part 0 is one serialized (args, kwargs), in which reference i stands for part i.
  # 1 SEPARATE: every part is one argument, the last `keywords` of them by name. 2 RAW: as 1, but the parts are the
  # argument bytes themselves and the result is bytes: no serializer, any language. (BAT-6)

  keywords @2 :List(Text);
  serializer @3 :Data;
  # Object id (16 bytes) of the client's serializer, or empty for the default of the function's language. (CLI-6)

  capabilities @4 :List(Session.Capability);
  priority @5 :Int32 = 0;   # higher first, among a user's tasks of the same depth (SCH-10). Zero in a Dispatch (SCH-98)
  depth @6 :UInt16 = 0;     # 0: submitted by a program; n + 1: by a task of depth n, as `parentTask` proves. Deeper
                            # first. (SCH-9, SCH-97)
  parentTask @7 :Data;      # the submitting task (16 bytes) when depth > 0: its end cancels these (CAN-7)
  flags @8 :UInt32 = 0;     # 1 PROFILING: measure each task; 2 STREAM_OUTPUT: send what it prints
  timeoutSeconds @9 :Float64 = 0;  # running time after which a task ends TIMED_OUT; zero: never (WRK-14)
  retries @10 :UInt16 = 0;  # how often a task that failed, or lost too many processors, is run again (SCH-15)
  graphId @11 :Data;        # 16 bytes when these tasks are part of a graph that several batches make up

  codeTag @12 :Text;
  # Which code a processor must be able to read, because functions or arguments of these tasks carry some: for Python's
  # bytecode the cache tag of the interpreter that made it, "cpython-311". Compared byte for byte with what workers
  # offer, and otherwise opaque. Empty: any worker can read it. (CLI-15, SCH-39, WRK-26)

  resultSalt @13 :Data;
  # 16 random bytes of the client, or empty. It goes into the ids of the objects in which these tasks leave their
  # values, so that task ids, which watchers see, do not give away where a value will lie. (OWN-6, OWN-14)

  lostProcessorsLimit @14 :UInt16 = 0;
  # How many attempts of a task may end with the death of their processor: the last of them ends the task
  # PROCESSOR_DIED. Chosen by the client; 1 means that no death is followed by another attempt. Zero, the default: what
  # the deployment allows, 3 unless its operator says otherwise. (SCH-75)

  ownerGrant @15 :Data;
  # Dispatch only: a lent grant of `client`, with which the worker fetches and stores objects for its tasks. Chosen by the
  # scheduler; what a Submit has here is not looked at. 49 bytes, opaque to workers but for the family at its head: it
  # names the worker's user and an end, and is replaced by that of a later Dispatch. (OWN-24, SEC-21)

  generation @16 :UInt64 = 0;
  # Dispatch only: the generation of the scheduler that sends it, a fencing token. A worker refuses a lower one than it
  # has seen in its session. (SCH-61, WRK-33)

  codeSet @17 :Data;
  # Object id (16 bytes) of the code set that the processors of these tasks import from, or empty: they import what their
  # worker has installed. Chosen by the client, which stores the object in its own name. Only workers with the feature
  # `code-sets` are given such tasks. (CLI-24, SCH-39, WRK-50)
}

struct TaskBatch @0xf4a2a1d460ff5746 {
  # Submit (client -> scheduler) and Dispatch (scheduler -> worker). One payload frame: the parts of all tasks in
  # order, then (Dispatch only) the inputs in order.

  header @0 :TaskHeader;
  functions @1 :Data;          # 16·k: object ids of the functions used, 1 ≤ k ≤ 65,535
  ids @2 :Data;                # 16·n, 1 ≤ n ≤ limits.batchTasks: task ids, chosen by the client, all different
  functionIndexes @3 :Data;    # u16·n into `functions`; empty: all 0
  partCounts @4 :Data;         # u16·n: parts of each task; empty: all 1
  partKinds @5 :Data;          # u8·Σ: 0 INLINE bytes, 1 OBJECT id, 2 TASK id (that task's result); empty: all 0
  partSizes @6 :Data;          # u32·Σ: bytes of each part in the payload (16 for OBJECT and TASK)
  dependencyCounts @7 :Data;   # u16·n: how many tasks must succeed first; empty: all 0
  dependencies @8 :Data;       # 16·Σ: their ids; every TASK part must be among its task's
  taskFlags @9 :Data;          # u8·n: 1 UNWANTED: the client needs no result record of success; empty: all 0
  attempts @10 :Data;          # u16·n, Dispatch only: which run of the task this is, from 1; empty: all 1 (SCH-5)
  isGraphSealed @11 :Bool = true;  # false: more batches of header.graphId follow, so keep results for them (SCH-18)

  inputIds @12 :Data;          # Dispatch only. 16·m: the finished tasks that TASK parts refer to
  inputKinds @13 :Data;        # u8·m: 0 INLINE, 1 OBJECT; empty: all 0
  inputSizes @14 :Data;        # u32·m: bytes of each in the payload

  awaitedCounts @15 :Data;     # Dispatch only, with feature `chains`. u16·n: how many of the tasks that this worker
                               # holds must succeed there before this one begins; empty: all 0 (SCH-36, WRK-23)
  awaited @16 :Data;           # 16·Σ: their ids. A TASK part names one of them or one of inputIds. (BAT-9)

  keySizes @17 :Data;
  # Submit only. u8·n: bytes of each task's key in `keys`, at most 64 (BAT-13); 0 for a task without one; empty: all 0.
  keys @18 :Data;
  # UTF-8, one after another: what the client's program calls its tasks, such as the keys of a graph's nodes. Foreign text for
  # people who watch (MON-7, MON-61), and no name for anything: two tasks may have the same.
}

struct ResultBatch @0xff6cfb0eac5d4707 {
  # How tasks ended. Worker -> scheduler -> client. One payload frame: the values in order.

  ids @0 :Data;        # 16·n
  attempts @1 :Data;   # u16·n; empty: all 1. The scheduler drops results of an attempt that is not current. (SCH-6)
  statuses @2 :Data;   # u8·n; 0 SUCCESS, 1 FAILED, 2 CANCELED, 3 WORKER_LOST, 4 PROCESSOR_DIED, 5 TIMED_OUT
                       # (stopped by its worker: it ran too long, or took too much memory),
                       # 6 REFUSED (never run: limits, no such function, dependency failed); empty: all 0
  kinds @3 :Data;      # u8·n; 0 INLINE value, 1 OBJECT id of the value, 2 NONE; empty: all 0
  sizes @4 :Data;      # u32·n: bytes of each in the payload
  profiles @5 :Data;   # 24·n or empty: u64 duration ns, u64 processor time ns, u64 peak memory bytes above start
  credit @6 :UInt32 = 0;  # worker -> scheduler: as Credit.limit, which rides along; zero: unchanged (CRD-3)
  # A status other than SUCCESS has as its value a TaskError message (standard encoding), or NONE for CANCELED.
}

struct KeptResults @0x8dbd6698cc498675 {
  # Results of ended tasks that unfinished ones depend on. Scheduler -> client: what the client needs so that a successor
  # of this scheduler does not run these tasks again. (SCH-51, SCH-52) Client -> scheduler, after a session was lost, before
  # the Submit of the tasks that depend on them: the same again. (CLI-17, SCH-53) One payload frame: the values in order.
  # All of them are successes, so there are no statuses; an ended task is never run again, so there are no attempts.

  graphId @0 :Data;    # 16 bytes, or empty: that of the tasks' header. Tasks of several graphs travel in several messages.
  ids @1 :Data;        # 16·n, all different
  kinds @2 :Data;      # u8·n: 0 INLINE value, 1 OBJECT id of the value; empty: all 0
  sizes @3 :Data;      # u32·n: bytes of each in the payload (16 for OBJECT)
  taskFlags @4 :Data;  # client -> scheduler only. u8·n, as in Submit: an object of an UNWANTED task is the scheduler's to
                       # release (OWN-5), any other is the client's (OWN-10); empty: all 0
}

struct TaskError @0xc0182f70275615fa {
  # Why a task did not succeed, for any language. At most limits.inlineBytes when encoded: text is cut, pickles dropped.
  code @0 :UInt16;        # chapter 11: TASK_RAISED, TASK_TIMED_OUT, PROCESSOR_DIED, WORKER_LOST, …
  typeName @1 :Text;      # "builtins.ZeroDivisionError"
  message @2 :Text;       # str(exception)
  text @3 :Text;          # the formatted traceback with the frames of the user's code
  serialized @4 :Data;    # the exception by the language's own serializer, or empty when it could not be
  exitCode @5 :Int32 = 0; # PROCESSOR_DIED: exit status, or minus the signal
  peakMemoryBytes @6 :UInt64 = 0;
  workers @7 :List(Text); # who ran it, one line for each attempt that was lost

  memoryLimitBytes @8 :UInt64 = 0;
  # MEMORY_LIMIT: the most memory that a processor of this worker may have, as its operator said. What the task's
  # processor had when it was stopped is in peakMemoryBytes. Zero, the default: the task did not end for that. (WRK-46)
}

struct Cancel @0x9e17ca09c0cb902d {
  ids @0 :Data;               # 16·n, or empty with isAll; an id that stands there twice counts once
  isAll @1 :Bool = false;     # client -> scheduler: every unfinished task of this client
  graceSeconds @2 :Float64 = 1;  # a running task is interrupted, and killed after this (CAN-4)
}

struct CancelReply @0x9e221fdb57db8352 {
  # Answers every distinct id of a Cancel exactly once. Tasks that end by it also end with a result CANCELED. (CAN-1)
  ids @0 :Data;       # 16·n
  outcomes @1 :Data;  # u8·n: 0 CANCELED, 1 TOO_LATE (it has ended another way), 2 UNKNOWN; empty: all 0
}

struct TaskLog @0xd5fb3ec27f97e88e {
  taskId @0 :Data;
  stream @1 :UInt16;  # 1 stdout, 2 stderr, 3 preparation: the worker's own text, before the task begins (chapter 7)
  text @2 :Text;
  worker @3 :Text;    # for people: the name of the worker that runs it
}

struct Shutdown @0x91a8c19282424983 {
  # Client -> scheduler: stop the cluster. Scheduler -> worker: finish or hand back, then Bye. (SCH-24)
  graceSeconds @0 :Float64 = 1;
}

struct ShutdownReply @0xaa1914ccffe10a62 {
  isAccepted @0 :Bool;
  text @1 :Text;
}

struct Explain @0xbe3ade0ebf502d70 {
  # Client -> scheduler: where is this task, and why? For people; nothing is changed by it. (SCH-33)
  requestId @0 :UInt64;

  taskId @1 :Data;
  # 16 bytes: a task of this client. Empty: the first of its queued tasks that no worker could ever take of those that
  # are connected, if there is one. A client that asks so now and then can tell its user what is missing.

  taskSource @2 :Data;
  taskNumber @3 :UInt64;
  # Instead of `taskId`: the first four bytes of a task's id, and its last eight as a number, in little-endian order. That
  # is the short form 648752af:9 that watchers show. Empty, the default: not asked so. (MON-43)
}

struct Explanation @0xb5a310aca82166ef {
  # What the scheduler knows of the task at this moment. Fields that say nothing in its state are zero.
  requestId @0 :UInt64;
  taskId @1 :Data;            # the one that was asked for, or found; empty when none was found
  state @2 :Text;             # waiting, queued, dispatched or canceling, as in MON-5; empty: no such unfinished task
  dependencyCount @3 :UInt32; # waiting: unfinished tasks that it depends on
  aheadCount @4 :UInt64;      # queued: tasks that are to leave before it; other clients take turns besides
  workerCount @5 :UInt32;     # workers that are connected
  ableCount @6 :UInt32;       # those of them that offer all its header asks for
  worker @7 :Text;            # dispatched and canceling: the name of the worker that has it
  isBegun @8 :Bool;           # it runs there, by the worker's last WorkerStatus
  runningSeconds @9 :Float64; # for so long, when isBegun
  attempt @10 :UInt16;        # which run of it this is, from 1
  capabilities @11 :List(Session.Capability);  # what its header asks for; empty without a state
  functionName @12 :Text;     # as its client calls it, where that is known
  startingCount @13 :UInt32;  # workers that worker managers are starting, by their last ManagerStatus, and that will
                              # offer all its header asks for; 2³² − 1: so many or more (FRM-21)
  codeTag @14 :Text;          # what its header asks for; empty without a state
  codeTags @15 :List(Text);   # what the workers that are connected offer, each once, when its header asks for one
  unreadBytes @16 :UInt64;    # waiting or queued, and its client does not read its results: how many bytes of them wait at
                              # the scheduler. Until the client has read, no task of it is dispatched (SCH-46)
  user @17 :Text;             # of the client whose task it is; empty without a state, and without keys (MON-25)
  isBlocked @18 :Bool;        # isBegun, and it waits for tasks that it has submitted, or for an object (WRK-69); others run
                              # in its place
  childCount @19 :UInt32;     # unfinished tasks that it has submitted
  silentSeconds @20 :Float64; # dispatched and canceling: the worker was last heard so long ago
  recoverySeconds @21 :Float64;  # queued, and held back until workers of the scheduler before have presented what they
                                 # hold (SCH-65): for so long at most (MON-31)
  hasCodeSet @22 :Bool;       # its header names a code set, so only workers with the feature `code-sets` are able
  lostSeconds @23 :Float64;   # dispatched and canceling: after so much more silence its worker is lost (SCH-94). Zero:
                              # not known

  record @24 :Monitor.TaskFailure;
  # To monitors alone (MON-55): client, function, user, attempt, accounts of earlier attempts, graph, parent and size of the
  # arguments of an unfinished task; or of one that has ended, without a `state`, also how it ended, as far as that is kept.
  # Its `taskId` is empty: nothing is known.
  children @25 :Data;         # 16·n: unfinished tasks that it has submitted, at most 100 of them; to monitors alone (MON-56)
  childStates @26 :Data;      # u8·n: their states, as in GraphShape
  trouble @27 :Text;
  # queued: the name of a worker that is able and takes no tasks at present, and why (WRK-65); empty: there is none
  stillSeconds @28 :Float64;  # dispatched and canceling: its worker has ended no task for so long (MON-67)
}

struct StackRequest @0xa3c10b3b9777300a {
  # Client or monitor -> scheduler -> worker: where in its code is this task now? For people; nothing is changed by it.
  # Scheduler -> worker only in a session with the feature `stacks`. (SCH-93, MON-42, MON-44, WRK-56)
  requestId @0 :UInt64;  # chosen by the sender, on each of the two ways anew
  taskId @1 :Data;       # 16 bytes
}

struct StackReply @0xac70398b103192eb {
  # Worker -> scheduler -> client or monitor.
  requestId @0 :UInt64;
  taskId @1 :Data;            # the one that was asked for

  outcome @2 :UInt16;
  # 0 TAKEN; 1 UNKNOWN (no unfinished task that the sender may ask about); 2 NOT_RUNNING (no worker has begun it, or it
  # has ended meanwhile); 3 NO_ANSWER (the task's process, or its worker, has not answered in time); 4 NOT_ALLOWED (by the
  # operator of the scheduler); 5 TOO_MANY (questions at once); 6 NOT_SUPPORTED (by the worker). (SCH-93)

  text @3 :Text;
  # TAKEN: the stack in the manner of the task's language, the function of the task first, at most 64 KiB. Names of files
  # and functions, and lines of code, but no values. (WRK-57)

  process @4 :Text;           # TAKEN and NO_ANSWER, for people: what the operating system tells of the task's process
  worker @5 :Text;            # the name of the worker that has the task, if one has it
  state @6 :Text;             # of the task, as in MON-5; empty: UNKNOWN or NOT_ALLOWED
  isBlocked @7 :Bool;         # it waits for tasks that it has submitted, or for an object (WRK-69)
  runningSeconds @8 :Float64; # since it began
}
