// A session as its dialer sees it. Spec chapters 02 (HSK), 03 (SES) and 04 (LIV).
//
// No socket, no clock: frames and the time come in, a Step goes out. The table of states is that of spec/03-session.md,
// "A session, as its dialer sees it". Times are in seconds, on a clock that never goes back.

import * as os from "node:os";

import * as codes from "../build/schema/constants.js";
import type { Hello } from "../build/schema/session.js";
import { type Bytes, fromHex, type Id } from "./bytes.js";
import { type Body, type Fill, type Frames, type Limits, type Message, put, readMessage, Refusal, type Said, usualLimits, writeMessage } from "./envelope.js";

/** What the Welcome has settled. */
export interface Terms {
  serverId: Id;
  sessionId: bigint;
  limits: Limits;
  heartbeat: number;
  lease: number;
  storageAddress: string;
  ownerGrant: Bytes;
  /** Of the scheduler; zero: none, or the feature `present-held` is not in force. */
  generation: bigint;
}

export type SessionEvent =
  | { kind: "opened" }
  /** What was sent and not acknowledged is gone (SES-11). Unless it `isOver`, the same Welcome has opened another. */
  | { kind: "lost"; code: number; text: string; isOver: boolean; isRejected: boolean; terms: Terms }
  | { kind: "message"; message: Message };

export interface Step {
  /** Close the old socket first; `outgoing` belongs to the fresh one. */
  wantsFreshSocket: boolean;
  outgoing: Frames[];
  events: SessionEvent[];
}

type State = "idle" | "dialing" | "open" | "resuming" | "ended";
type Welcome = Extract<Said, { kind: "welcome" }>;

const acknowledgeCount = 16; // SES-4 allows 64
const acknowledgeBytes = 16 << 20; // SES-4 allows 32 MiB
const keptBytesMax = 512 * 2 ** 20; // SES-14
const fruitlessResumesMax = 5; // SES-20
const heartbeatMin = 0.05; // LIV-1
const helloPatienceMin = 0.5;
const helloPatienceMax = 4;
const standbyPatience = 1; // HSK-41
const retryMin = 0.05; // whatever a standby can stand
const noTerms: Terms = { serverId: "", sessionId: 0n, limits: usualLimits, heartbeat: 2, lease: 60, storageAddress: "", ownerGrant: new Uint8Array(), generation: 0n };

const emptyStep = (): Step => ({ wantsFreshSocket: false, outgoing: [], events: [] });
/** The feature: tasks outlive their scheduler. */
export const presentHeld = "present-held";

const sizeOf = (frames: Frames): number => frames.reduce((sum, frame) => sum + frame.length, 0);
const isOutsideSequence = (said: Said): boolean => ["welcome", "reject", "acknowledge"].includes(said.kind);

export class Session {
  private state: State = "idle";
  private peerId: Id = "";
  private incarnation = 0n;
  private step = emptyStep();

  private sentSeq = 0n; // of the last message we numbered
  private receivedSeq = 0n; // the highest without a gap
  private kept: { seq: bigint; frames: Frames }[] = []; // what the server has not acknowledged, in order
  private keptBytes = 0;
  private pings: bigint[] = []; // nonces whose Pong is due
  private unacknowledgedCount = 0;
  private unacknowledgedBytes = 0;

  private lastSentAt = 0;
  private lastReceivedAt = 0;
  private lastPingAt = 0;
  private helloAt = 0;
  private helloPatience = 0;
  private refusal = ""; // the text of the last Reject OVERLOADED before the session
  private hasMetStandby = false; // since the last Welcome
  private hellosInARow = 0;
  private fruitlessResumes = 0;
  private hasProgressed = false;

  /** Of the present session; without a serverId: there was none since the last `dial`. */
  terms = noTerms;
  welcomeCount = 0;

  /** `introduce` fills in what the role has to say of itself. */
  constructor(
    private readonly introduce: (hello: Hello) => void,
    private readonly proposed: { heartbeat: number; lease: number },
  ) {}

  get isOpen(): boolean {
    return this.state === "open" || this.state === "resuming";
  }

  // ---------------------------------------------------------------- from the role

  /** Begins a life under this id. May be called again after the session is over. */
  dial(peerId: Id, now: number): void {
    this.peerId = peerId;
    this.state = "dialing";
    this.terms = noTerms;
    this.hellosInARow = 0;
    this.sayHello(now);
  }

  /** Numbered now, and kept until the other side has it. Returns the number, to which Errors refer; zero: not sent. */
  send(fill: Fill, payload: Bytes | undefined, now: number): bigint {
    if (!this.isOpen) return 0n; // it has just ended, and its role is about to be told
    const frames = writeMessage(++this.sentSeq, this.receivedSeq, fill, payload);
    this.kept.push({ seq: this.sentSeq, frames });
    this.keptBytes += sizeOf(frames);
    if (this.state === "open") this.put(frames, now);
    const seq = this.sentSeq;
    if (this.keptBytes > keptBytesMax) {
      this.endWithError(new Refusal(codes.overloaded, "SES-14", "too much was sent and not acknowledged", true));
    }
    return seq;
  }

  /** The last message of this session (LIV-8). */
  leave(code: number, text: string, now: number): void {
    if (this.state === "open") {
      this.send((body) => Object.assign(body._initBye(), { code, text }), undefined, now);
    }
    this.state = "ended";
  }

  /** A message of the server that cannot be accepted (ERR-1). */
  refuse(refusal: Refusal, now: number): void {
    if (refusal.isFatal) this.endWithError(refusal);
    else this.send(errorOf(refusal), undefined, now);
  }

  /** The role has handled all events taken so far: now the Pongs, which come after what they have caused (LIV-4). */
  settle(now: number): boolean {
    const nonces = this.pings.splice(0);
    for (const nonce of nonces) this.send((body) => void (body._initPong().nonce = nonce), undefined, now);
    return nonces.length > 0;
  }

  take(): Step {
    const taken = this.step;
    this.step = emptyStep();
    return taken;
  }

  // ---------------------------------------------------------------- from the socket

  receive(frames: Frames, now: number): void {
    if (this.state === "idle" || this.state === "ended") return;
    let message: Message;
    try {
      message = readMessage(frames, this.isOpen ? this.terms.limits : usualLimits);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (this.state === "open") this.onUnreadable(error, now); // else nothing is answered (HSK-26)
      return;
    }
    if (this.state === "open") this.onMessage(message, sizeOf(frames), now);
    else this.onAnswer(message.said, now);
  }

  private onUnreadable(refusal: Refusal, now: number): void {
    this.lastReceivedAt = now;
    if (refusal.isFatal || refusal.seq === undefined) this.endWithError(refusal);
    else if (refusal.seq === 0n || this.isNext(refusal.seq, now)) this.refuse(refusal, now); // once, and behind us (SES-16)
  }

  private onAnswer(said: Said, now: number): void {
    if (said.kind === "welcome") this.onWelcome(said, now);
    else if (said.kind === "reject") this.onReject(said, now);
    else if (said.kind === "error" && said.fatal) this.onFatal(said.code, said.text, now);
  }

  /**
   * A server without room for a session now is dialed again: the next Hello is due in any case (ERR-10). Its text is for
   * the user, if no Welcome comes (ERR-11). After a standby the next address is soon dialed (HSK-41).
   */
  private onReject({ code, text, isStandby, retrySeconds }: Extract<Said, { kind: "reject" }>, now: number): void {
    if (code !== codes.overloaded) return this.end(code, text, true);
    this.refusal = text;
    if (!isStandby) return;
    this.hasMetStandby = true;
    if (retrySeconds > 0) this.helloPatience = Math.min(this.helloPatience, now - this.helloAt + Math.max(retrySeconds, retryMin));
  }

  private onMessage(message: Message, bytes: number, now: number): void {
    const { said, seq } = message;
    this.lastReceivedAt = now;
    if (!this.acknowledgedUpTo(message.ack)) {
      const text = "the ack is above all that was sent";
      this.endWithError(new Refusal(codes.badEnvelope, "SES-15", text, true, seq));
    } else if (said.kind === "error" && said.fatal) {
      this.onFatal(said.code, said.text, now);
    } else if (isOutsideSequence(said) !== (seq === 0n)) {
      this.onMisplaced(message, now);
    } else if (said.kind === "reject") {
      this.refuse(new Refusal(codes.notAllowed, "HSK-13", "there is a session already", false, 0n), now);
    } else if (seq !== 0n && this.isNext(seq, now)) {
      this.onSequenced(message, bytes, now);
    }
  }

  /** With a seq that its kind does not have (SES-23). Errors are taken as they come (ERR-5). */
  private onMisplaced(message: Message, now: number): void {
    if (message.said.kind === "error") {
      this.step.events.push({ kind: "message", message });
    } else if (message.seq === 0n || this.isNext(message.seq, now)) {
      this.refuse(new Refusal(codes.badEnvelope, "SES-23", "that seq has no place in this kind", false, message.seq), now);
    }
  }

  private onSequenced(message: Message, bytes: number, now: number): void {
    const { said } = message;
    if (said.kind === "bye") return this.end(said.code, said.text);
    if (said.kind === "ping") this.pings.push(said.nonce);
    else if (said.kind === "other") this.refuse(new Refusal(codes.notAllowed, "HSK-13", "a client does not receive that", false, message.seq), now);
    else if (said.kind !== "pong") this.step.events.push({ kind: "message", message });
    this.unacknowledgedBytes += bytes;
    if (++this.unacknowledgedCount >= acknowledgeCount || this.unacknowledgedBytes >= acknowledgeBytes) {
      this.put(writeMessage(0n, this.receivedSeq, (body) => void (body.acknowledge = true)), now);
    }
  }

  /** Takes the next of the sequence. What was there before is dropped (SES-10), a gap is for the resume to mend (SES-9). */
  private isNext(seq: bigint, now: number): boolean {
    if (seq <= this.receivedSeq) return false;
    if (seq !== this.receivedSeq + 1n) {
      this.resume(now);
      return false;
    }
    this.receivedSeq = seq;
    this.hasProgressed = true;
    return true;
  }

  private acknowledgedUpTo(seq: bigint): boolean {
    if (seq > this.sentSeq) return false;
    for (let first = this.kept[0]; first !== undefined && first.seq <= seq; first = this.kept[0]) {
      this.keptBytes -= sizeOf(first.frames);
      this.kept.shift();
      this.hasProgressed = true;
    }
    return true;
  }

  // ---------------------------------------------------------------- dialing and resuming

  private sayHello(now: number): void {
    const asksToResume = this.state === "resuming";
    if (!asksToResume) ++this.incarnation; // a Hello that is late must not pass for this one (HSK-22)
    this.step.wantsFreshSocket = true;
    this.step.outgoing = [];
    this.put(writeMessage(0n, 0n, (body) => this.fillHello(body, asksToResume)), now);
    // Longer each time, with some randomness, so that a thousand dialers do not dial in step (HSK-20).
    const longer = Math.min(helloPatienceMin * 2 ** this.hellosInARow++, this.hasMetStandby ? standbyPatience : helloPatienceMax);
    this.helloPatience = longer * (0.75 + 0.5 * Math.random());
    this.helloAt = now;
  }

  private fillHello(body: Body, asksToResume: boolean): void {
    const hello = body._initHello();
    hello.versionMin = 1;
    hello.versionMax = 1;
    put((length) => hello._initPeerId(length), fromHex(this.peerId));
    hello.incarnation = this.incarnation;
    Object.assign(hello._initTimers(), { heartbeatSeconds: this.proposed.heartbeat, leaseSeconds: this.proposed.lease });
    Object.assign(hello._initSoftware(), {
      name: "scaler-port-typescript",
      version: "1.0.0",
      language: `Node ${process.versions.node}`,
      host: os.hostname(),
      processId: BigInt(process.pid),
    });
    if (asksToResume) {
      Object.assign(hello._initResume(), { sessionId: this.terms.sessionId, receivedSeq: this.receivedSeq });
    }
    this.introduce(hello);
  }

  private resume(now: number): void {
    this.state = "resuming";
    this.hellosInARow = 0;
    this.sayHello(now);
  }

  private onWelcome(welcome: Welcome, now: number): void {
    this.lastReceivedAt = this.lastSentAt = this.lastPingAt = now;
    this.hellosInARow = 0;
    this.refusal = "";
    this.hasMetStandby = false;
    this.welcomeCount += 1;
    if (welcome.version !== 1) return this.end(codes.versionMismatch, "the server chose a version that was not offered", true);
    if (!welcome.resumed) {
      if (this.state === "resuming") {
        const text = "the server does not have the session any more";
        this.step.events.push({ kind: "lost", code: codes.noSession, text, isOver: false, isRejected: false, terms: this.terms });
      }
      return this.beginAnew(welcome);
    }
    this.state = "open";
    const firstKept = this.kept[0]?.seq ?? this.sentSeq + 1n;
    if (welcome.receivedSeq > this.sentSeq || welcome.receivedSeq + 1n < firstKept) {
      return this.endWithError(new Refusal(codes.badEnvelope, "SES-24", "receivedSeq is not what the server can have", true));
    }
    this.acknowledgedUpTo(welcome.receivedSeq);
    this.fruitlessResumes = this.hasProgressed ? 0 : this.fruitlessResumes + 1;
    this.hasProgressed = false;
    if (this.fruitlessResumes >= fruitlessResumesMax) {
      return this.endWithError(new Refusal(codes.leaseExpired, "SES-20", "five resumes in a row brought nothing new", true));
    }
    for (const { frames } of this.kept) this.put(frames, now); // SES-18
  }

  private beginAnew(welcome: Welcome): void {
    this.state = "open";
    this.terms = {
      serverId: welcome.serverId,
      sessionId: welcome.sessionId,
      limits: welcome.limits,
      heartbeat: Math.max(welcome.heartbeatSeconds, heartbeatMin),
      lease: Math.max(welcome.leaseSeconds, 3 * heartbeatMin),
      storageAddress: welcome.storageAddress,
      ownerGrant: welcome.ownerGrant,
      generation: welcome.features.includes(presentHeld) ? welcome.generation : 0n,
    };
    this.sentSeq = this.receivedSeq = 0n;
    this.kept = [];
    this.keptBytes = 0;
    this.pings = [];
    this.fruitlessResumes = 0;
    this.hasProgressed = false;
    this.step.events.push({ kind: "opened" });
  }

  private onFatal(code: number, text: string, now: number): void {
    const isMended = code === codes.noSession || code === codes.sequenceGap || code === codes.leaseExpired;
    if (!isMended) return this.end(code, text);
    // At once only while open: a server that is starting or stopping must not be dialed in a tight loop.
    if (this.state === "open") this.resume(now);
  }

  // ---------------------------------------------------------------- time

  nextDeadline(): number {
    if (this.state === "dialing") return this.helloAt + this.helloPatience;
    if (this.state === "resuming") return Math.min(this.helloAt + this.helloPatience, this.lastReceivedAt + this.terms.lease);
    if (this.state !== "open") return Infinity;
    const pingAt = Math.min(this.lastSentAt, Math.max(this.lastReceivedAt, this.lastPingAt)) + this.terms.heartbeat;
    return Math.min(pingAt, this.lastReceivedAt + this.patience());
  }

  tick(now: number): void {
    if (now < this.nextDeadline()) return;
    if (this.state === "dialing") this.sayHello(now);
    else if (this.state === "resuming") {
      if (now < this.lastReceivedAt + this.terms.lease) this.sayHello(now);
      else this.end(codes.leaseExpired, this.refusal || "no server answered within the lease");
    } else if (now >= this.lastReceivedAt + this.patience()) this.resume(now);
    else {
      this.lastPingAt = now;
      this.send((body) => void body._initPing(), undefined, now);
    }
  }

  /** How long a silent server is waited for: three heartbeats, and less where the lease is short (LIV-7). */
  private patience(): number {
    return Math.min(3 * this.terms.heartbeat, 0.7 * this.terms.lease);
  }

  // ---------------------------------------------------------------- ends

  private end(code: number, text: string, isRejected = false): void {
    this.state = "ended";
    this.step.events.push({ kind: "lost", code, text, isOver: true, isRejected, terms: this.terms });
  }

  private endWithError(refusal: Refusal): void {
    if (this.state === "open") this.step.outgoing.push(writeMessage(0n, this.receivedSeq, errorOf(refusal)));
    this.end(refusal.code, refusal.message);
  }

  private put(frames: Frames, now: number): void {
    this.step.outgoing.push(frames);
    this.lastSentAt = now;
    this.unacknowledgedCount = 0;
    this.unacknowledgedBytes = 0;
  }
}

const errorOf =
  ({ code, clause, message, isFatal, seq }: Refusal): Fill =>
  (body) =>
    Object.assign(body._initError(), { code, clause, text: message, fatal: isFatal, refSeq: seq ?? 0n });
