// A client: calls of functions by name, with bytes as arguments. Spec chapters 05 (CLI), 09 (CAN) and 13 (OWN).

import * as codes from "../build/schema/constants.js";
import type { Hello } from "../build/schema/session.js";
import { type Argument, batchLength, type CallOptions, type Failure, inline, object, readFailure, readResults, type Result, type Row, submission } from "./batch.js";
import { type Bytes, contentId, fromHex, type Id, idColumn, joined, numbersOf, randomId, utf8 } from "./bytes.js";
import { type Message, put, Refusal, type Said } from "./envelope.js";
import { Link } from "./link.js";
import type { Pass } from "./pass.js";
import { presentHeld, type SessionEvent } from "./session.js";
import { ObjectStore, type Owner, storageBeside, type StorageError } from "./storage.js";

export interface Call {
  readonly function: string;
  readonly arguments: readonly Bytes[];
  readonly options: CallOptions;
}

export type Happening =
  /** Every task ends exactly once, whatever happens to the scheduler. */
  | { kind: "ended"; task: Id; status: number; value: Bytes; failure?: Failure }
  | { kind: "cancelAnswered"; task: Id; outcome: number }
  | { kind: "printed"; task: Id; stream: number; text: string }
  | { kind: "shutdownAnswered"; isAccepted: boolean; text: string }
  | { kind: "connected"; serverId: Id }
  /** What is unfinished goes on with the next connection, unless this `isOver`: then it has failed. */
  | { kind: "disconnected"; code: number; text: string; isOver: boolean };

interface Task {
  readonly call: Call;
  readonly function: Id;
  /** Of the arguments that are too large to ride along, in our present name. */
  objects: Map<number, Id>;
  /** Zero: the scheduler has not heard of it. */
  submitSeq: bigint;
  /** It has succeeded, and its value is on its way. */
  isFetching: boolean;
}

/** Functions that no unfinished task names: so many are kept, and after so many ends the rest is let go (OWN-13). */
const idleFunctionsKept = 512;
const endsBetweenReleases = 256;
const fetchWaitSeconds = 5; // a storage that was restarted may get the value from nobody else
const functionBytes = (name: string): Bytes => utf8(`name:${name}`);

export class Client {
  private readonly link: Link;
  private readonly store: ObjectStore;
  /** The name of our session, and its grant. */
  private self: Owner = { id: "", grant: new Uint8Array() };
  /** Of the last session whose loss was noticed (CLI-21, CLI-22), and the highest generation that was told (HSK-36). */
  private former = { serverId: "", generation: 0n, name: new Uint8Array() as Bytes };
  /** Of all our tasks: so that no other peer can name the objects of their results (OWN-14). */
  private readonly resultSalt = fromHex(randomId());
  private tasks = new Map<Id, Task>(); // the unfinished ones
  private unsent: Id[] = []; // in the order of submitting; some may have ended since
  private functions = new Set<string>(); // whose objects are in storage in our present name, those used last at the end
  private endsUntilRelease = endsBetweenReleases;
  private giveUpTimer: NodeJS.Timeout | undefined;
  private mustBeginAnew = false;
  private hasStoppedCluster = false;
  private isSubmitDue = false;

  constructor(
    private readonly happened: (happening: Happening) => void,
    /** Without a session for `giveUp` seconds, what is unfinished fails (CLI-12). */
    private readonly timers: { heartbeat: number; lease: number; giveUp: number; pass?: Pass | undefined } = { heartbeat: 2, lease: 60, giveUp: 60 },
  ) {
    this.link = new Link((hello) => this.introduce(hello), (event) => this.onEvent(event), timers, timers.pass);
    this.store = new ObjectStore(codes.roleClient, timers.pass, () => this.putAgain());
  }

  private introduce(hello: Hello): void {
    const { serverId, generation, name } = this.former;
    hello.role = codes.roleClient;
    hello._initFeatures(1).set(0, presentHeld);
    hello.generation = generation;
    put((length) => hello._initLastServerId(length), fromHex(serverId));
    put((length) => hello._initFormerName(length), name);
  }

  connect(schedulerAddress: string): void {
    this.self = { id: randomId(), grant: new Uint8Array() };
    this.link.dial(schedulerAddress, this.self.id);
    this.giveUpLater();
  }

  submit(call: Call): Id {
    const id = randomId();
    const task = { call, function: contentId(functionBytes(call.function)), objects: new Map<number, Id>(), submitSeq: 0n, isFetching: false };
    this.tasks.set(id, task);
    this.unsent.push(id);
    this.submitSoon();
    return id;
  }

  cancel(ids: readonly Id[], graceSeconds: number): void {
    const isWithScheduler = (id: Id): boolean => this.link.session.isOpen && (this.tasks.get(id)?.submitSeq ?? 0n) !== 0n;
    for (const task of ids.filter((id) => !isWithScheduler(id))) {
      const isUnsent = this.tasks.has(task);
      this.happened({ kind: "cancelAnswered", task, outcome: isUnsent ? codes.cancelCanceled : codes.cancelUnknown });
      if (isUnsent) this.endCanceled(task);
    }
    const known = ids.filter(isWithScheduler);
    if (known.length === 0) return;
    this.link.send((body) => {
      const cancel = body._initCancel();
      put((length) => cancel._initIds(length), idColumn(known));
      cancel.graceSeconds = graceSeconds;
    });
  }

  shutdownCluster(graceSeconds: number): void {
    if (this.link.session.isOpen) this.link.send((body) => void (body._initShutdown().graceSeconds = graceSeconds));
    else this.happened({ kind: "shutdownAnswered", isAccepted: false, text: "there is no session with a scheduler" });
  }

  leave(): void {
    clearTimeout(this.giveUpTimer);
    this.link.leave(codes.ok, "");
    this.store.leave();
  }

  // ---------------------------------------------------------------- the session

  private onEvent(event: SessionEvent): void {
    if (event.kind === "opened") this.onOpened();
    else if (event.kind === "lost") this.onLost(event);
    else if (!this.mustBeginAnew) this.onMessage(event.message);
  }

  private onOpened(): void {
    if (this.mustBeginAnew) {
      // A session under the old name is of no use, for all is to go on under a new one (CLI-8).
      this.mustBeginAnew = false;
      this.link.leave(codes.ok, "begins again");
      this.link.dialNow(this.self.id);
      return;
    }
    clearTimeout(this.giveUpTimer);
    this.giveUpTimer = undefined;
    const { serverId, storageAddress, ownerGrant } = this.link.session.terms;
    this.self = { id: this.self.id, grant: ownerGrant };
    this.store.use(storageAddress === "" ? storageBeside(this.link.address) : storageAddress);
    this.happened({ kind: "connected", serverId });
    this.submitSoon();
  }

  /** No peer is left that could send the result of a task that the scheduler does not know (CAN-10). */
  private onCancelAnswered(task: Id, outcome: number): void {
    this.happened({ kind: "cancelAnswered", task, outcome });
    if (outcome === codes.cancelUnknown) this.endCanceled(task);
  }

  private endCanceled(task: Id): void {
    this.end(task, codes.statusCanceled, new Uint8Array(), readFailure(new Uint8Array(), codes.statusCanceled));
  }

  /** Everything goes on under a new name; what the old one owns is let go (CLI-8, CLI-11). */
  private onLost({ code, text, isOver, isRejected, terms }: Extract<SessionEvent, { kind: "lost" }>): void {
    const isRefused = code === codes.sessionReplaced || (isRejected && code !== codes.shuttingDown);
    const isFinal = isOver && (this.hasStoppedCluster || isRefused); // else a successor may come
    this.happened({ kind: "disconnected", code, text, isOver: isFinal });
    if (isFinal) return this.failAll(code, text);
    this.giveUpLater();
    const former = this.self;
    if (terms.serverId !== "") {
      const generation = terms.generation > this.former.generation ? terms.generation : this.former.generation;
      const name = former.grant.length > 0 ? joined([fromHex(former.id), former.grant]) : new Uint8Array();
      this.former = { serverId: terms.serverId, generation, name };
    }
    this.self = { id: randomId(), grant: new Uint8Array() };
    const owned = [...this.functions].map((name) => contentId(functionBytes(name)));
    this.functions.clear();
    this.unsent = [];
    for (const [id, task] of this.tasks) {
      if (task.isFetching) continue; // it has ended, unless its value is gone
      this.unsent.push(id);
      task.submitSeq = 0n;
      owned.push(...task.objects.values());
      task.objects.clear();
    }
    this.store.release(former, owned);
    if (isOver) this.link.dialAgain(this.self.id);
    else this.mustBeginAnew = true;
  }

  private giveUpLater(): void {
    this.giveUpTimer ??= setTimeout(() => {
      this.giveUpTimer = undefined;
      this.failAll(codes.noSession, `no scheduler answered at ${this.link.address}`);
      this.giveUpLater();
    }, this.timers.giveUp * 1000);
  }

  private onMessage({ said, seq }: Message): void {
    switch (said.kind) {
      case "results":
        return this.onResults(said, seq);
      case "cancelReply": {
        const outcomes = numbersOf(1, said.outcomes, Math.min(said.ids.length, said.outcomes.length || said.ids.length), codes.cancelCanceled);
        said.ids.forEach((task, row) => this.onCancelAnswered(task, outcomes[row] ?? codes.cancelUnknown));
        return;
      }
      case "taskLog":
        return this.happened({ kind: "printed", task: said.taskId, stream: said.stream, text: said.text });
      case "shutdownReply":
        this.hasStoppedCluster = said.isAccepted;
        return this.happened({ kind: "shutdownAnswered", isAccepted: said.isAccepted, text: said.text });
      case "error":
        return this.onRefused(said.refSeq, said.code, said.text);
      default:
        this.link.refuse(new Refusal(codes.notAllowed, "HSK-13", "a client does not receive that", false, seq));
    }
  }

  /** A refused batch is refused as a whole, and no Results follow for it (CLI-10). */
  private onRefused(refSeq: bigint, code: number, text: string): void {
    const refused = [...this.tasks].filter(([, task]) => task.submitSeq !== 0n && task.submitSeq === refSeq);
    for (const [id] of refused) this.fail(id, code, text, codes.statusRefused);
  }

  // ---------------------------------------------------------------- results

  private onResults({ columns }: Extract<Said, { kind: "results" }>, seq: bigint): void {
    let results: Result[];
    try {
      results = readResults(columns, this.link.session.terms.limits);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      return this.link.refuse(new Refusal(error.code, error.clause, error.message, error.isFatal, seq));
    }
    for (const { task, status, value, object: objectId } of results) {
      if (this.tasks.get(task)?.isFetching !== false) continue;
      if (status !== codes.statusSuccess) this.end(task, status, new Uint8Array(), readFailure(value, status));
      else if (objectId !== undefined) void this.fetch(task, objectId);
      else this.end(task, status, value);
    }
  }

  private async fetch(id: Id, objectId: Id): Promise<void> {
    const owner = this.self;
    const task = this.tasks.get(id);
    if (task === undefined) return;
    task.isFetching = true;
    try {
      this.end(id, codes.statusSuccess, await this.store.get(objectId, owner, fetchWaitSeconds));
    } catch (error) {
      const { code, message } = error as StorageError;
      if (owner.id === this.self.id) return this.fail(id, code, `the return value is lost: ${message}`);
      task.isFetching = false; // it went with the session, so the task is unfinished after all (CLI-8)
      task.submitSeq = 0n;
      this.unsent.push(id);
      this.submitSoon();
    } finally {
      this.store.release(owner, [objectId]); // OWN-10
    }
  }

  private end(task: Id, status: number, value: Bytes, failure?: Failure): void {
    const ended = this.tasks.get(task);
    if (ended === undefined) return;
    this.store.release(this.self, [...ended.objects.values()]); // OWN-2
    this.tasks.delete(task);
    this.happened({ kind: "ended", task, status, value, ...(failure && { failure }) });
    this.endsUntilRelease -= 1;
    if (this.endsUntilRelease === 0) this.releaseIdleFunctions();
  }

  private fail(task: Id, code: number, message: string, status = codes.statusFailed): void {
    this.end(task, status, new Uint8Array(), { code, type: "", message, text: "", exitCode: 0, workers: [] });
  }

  private failAll(code: number, text: string): void {
    for (const task of [...this.tasks.keys()]) this.fail(task, code, text);
  }

  // ---------------------------------------------------------------- submitting

  /** When the code that runs now is done: what piles up leaves together. */
  private submitSoon(): void {
    if (this.isSubmitDue) return;
    this.isSubmitDue = true;
    setImmediate(() => {
      this.isSubmitDue = false;
      if (this.link.session.isOpen && !this.mustBeginAnew) this.submitUnsent();
    });
  }

  private submitUnsent(): void {
    const waiting = this.unsent.splice(0).flatMap((id) => {
      const task = this.tasks.get(id);
      return task === undefined ? [] : [{ id, task }];
    });
    while (waiting.length > 0) {
      const options = waiting[0]?.task.call.options;
      const end = waiting.findIndex(({ task }) => !isSame(task.call.options, options));
      const alike = end < 0 ? waiting : waiting.slice(0, end);
      const rows = alike.map(({ id, task }) => this.rowOf(id, task));
      while (rows.length > 0) {
        const length = batchLength(rows, this.link.session.terms.limits);
        const batch = rows.splice(0, Math.max(length, 1));
        if (length > 0) this.sendBatch(batch);
        else batch.forEach(({ task }) => this.fail(task, codes.tooLarge, "the call has more arguments than a message can hold: join some of them"));
      }
      waiting.splice(0, alike.length);
    }
  }

  private rowOf(id: Id, task: Task): Row {
    this.putFunction(task.call.function);
    const { inlineBytes, payloadFrameBytes } = this.link.session.terms.limits;
    let inlineTotal = 0;
    // A part above the limit travels as an object (PAY-1), and so does what would make the payload too large (CLI-4).
    const argumentOf = (value: Bytes, index: number): Argument => {
      if (value.length > inlineBytes || inlineTotal + value.length > payloadFrameBytes / 2) return this.objectOf(id, task, value, index);
      inlineTotal += value.length;
      return inline(value);
    };
    return { task: id, function: task.function, arguments: task.call.arguments.map(argumentOf) };
  }

  private sendBatch(rows: readonly Row[]): void {
    const first = this.tasks.get(rows[0]?.task ?? "");
    if (first === undefined) return;
    const { fill, payload } = submission(rows, first.call.options, this.resultSalt);
    const seq = this.link.send(fill, payload);
    for (const { task } of rows) {
      const sent = this.tasks.get(task);
      if (sent !== undefined) sent.submitSeq = seq;
    }
  }

  private objectOf(id: Id, task: Task, value: Bytes, index: number): Argument {
    const objectId = randomId();
    task.objects.set(index, objectId);
    this.putArgument(id, objectId, value);
    return object(objectId);
  }

  private putArgument(id: Id, objectId: Id, value: Bytes): void {
    this.store.put(objectId, this.self, value).catch((error: StorageError) => {
      const isMeant = [...(this.tasks.get(id)?.objects.values() ?? [])].includes(objectId);
      if (!isMeant) return;
      this.cancel([id], 0);
      this.fail(id, error.code, `an argument could not be stored: ${error.message}`);
    });
  }

  private putFunction(name: string): void {
    const isStored = this.functions.delete(name);
    this.functions.add(name);
    if (isStored) return;
    // When it cannot be stored, the tasks that name it end with an error of their own.
    this.store.put(contentId(functionBytes(name)), this.self, functionBytes(name)).catch(() => undefined);
  }

  private releaseIdleFunctions(): void {
    this.endsUntilRelease = endsBetweenReleases;
    const used = new Set([...this.tasks.values()].map(({ call }) => call.function));
    const idle = [...this.functions].filter((name) => !used.has(name));
    const unneeded = idle.slice(0, Math.max(0, idle.length - idleFunctionsKept));
    for (const name of unneeded) this.functions.delete(name);
    this.store.release(this.self, unneeded.map((name) => contentId(functionBytes(name))));
  }

  /** The storage has forgotten everything: what unfinished tasks need goes there again (CLI-13). */
  private putAgain(): void {
    const names = [...this.functions];
    this.functions.clear();
    names.forEach((name) => this.putFunction(name));
    for (const [id, task] of this.tasks) {
      task.objects.forEach((objectId, index) => this.putArgument(id, objectId, task.call.arguments[index] ?? new Uint8Array()));
    }
  }
}

const isSame = (one: CallOptions, other: CallOptions | undefined): boolean => one === other || JSON.stringify(one) === JSON.stringify(other);
