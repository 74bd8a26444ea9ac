// A session on a socket. Spec chapter 01 (FRM).

import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";

import { Dealer } from "zeromq";

import type { Hello } from "../build/schema/session.js";
import type { Bytes, Id } from "./bytes.js";
import type { Fill, Frames, Refusal } from "./envelope.js";
import { Session, type SessionEvent } from "./session.js";

/** The monotonic clock of this process, in seconds. */
export const steadyNow = (): number => performance.now() / 1000;

const redialPause = 0.3;
const leaveMilliseconds = 1000;

/** A fresh name for every socket: 16 bytes, none of them zero (FRM-3). */
const routingId = (): string => randomBytes(12).toString("base64url");

export class Link {
  readonly session: Session;
  address = "";
  private socket: Dealer | undefined;
  private unsent: Frames[] = [];
  private isSending = false;
  private timer: NodeJS.Timeout | undefined;
  private redialTimer: NodeJS.Timeout | undefined;
  private isTurnDue = false;

  constructor(
    introduce: (hello: Hello) => void,
    private readonly onEvent: (event: SessionEvent) => void,
    timers: { heartbeat: number; lease: number },
  ) {
    this.session = new Session(introduce, timers);
  }

  dial(address: string, peerId: Id): void {
    clearTimeout(this.redialTimer);
    this.address = address;
    this.session.dial(peerId, steadyNow());
    this.turnSoon();
  }

  /** The same server, after a pause: for when a session is over and another is wanted. */
  dialAgain(peerId: Id): void {
    clearTimeout(this.redialTimer);
    this.redialTimer = setTimeout(() => this.dial(this.address, peerId), redialPause * 1000);
  }

  send(fill: Fill, payload?: Bytes): bigint {
    const seq = this.session.send(fill, payload, steadyNow());
    this.turnSoon();
    return seq;
  }

  refuse(refusal: Refusal): void {
    this.session.refuse(refusal, steadyNow());
    this.turnSoon();
  }

  /** Says Bye; what is queued has a second to get out. */
  leave(code: number, text: string): void {
    this.session.leave(code, text, steadyNow());
    const { outgoing } = this.session.take();
    this.unsent.push(...outgoing);
    clearTimeout(this.timer);
    clearTimeout(this.redialTimer);
    const leaving = this.socket;
    this.socket = undefined;
    if (leaving === undefined) return;
    leaving.linger = leaveMilliseconds;
    void this.drain(leaving).finally(() => leaving.close());
  }

  // ---------------------------------------------------------------- turns

  /** When the code that runs now is done: what it sends leaves together. */
  private turnSoon(): void {
    if (this.isTurnDue) return;
    this.isTurnDue = true;
    setImmediate(() => {
      this.isTurnDue = false;
      this.turn();
    });
  }

  private turn(): void {
    this.session.tick(steadyNow());
    for (let hasMore = true; hasMore; ) {
      const step = this.session.take();
      if (step.wantsFreshSocket) this.openSocket();
      if (this.socket !== undefined) this.unsent.push(...step.outgoing);
      step.events.forEach(this.onEvent);
      this.session.settle(steadyNow());
      hasMore = step.events.length > 0 || step.outgoing.length > 0;
    }
    if (this.socket !== undefined && !this.isSending) void this.drain(this.socket);
    clearTimeout(this.timer);
    const seconds = this.session.nextDeadline() - steadyNow();
    if (Number.isFinite(seconds)) this.timer = setTimeout(() => this.turn(), Math.max(0, seconds * 1000));
  }

  private openSocket(): void {
    this.socket?.close();
    this.unsent = [];
    // Marks drop in silence; the session bounds what is queued (FRM-12).
    const socket = new Dealer({ routingId: routingId(), linger: 0, sendHighWaterMark: 0, receiveHighWaterMark: 0 });
    socket.connect(this.address);
    this.socket = socket;
    void this.listen(socket);
  }

  private async listen(socket: Dealer): Promise<void> {
    try {
      for await (const frames of socket) {
        if (socket !== this.socket) return; // given up
        this.session.receive(frames, steadyNow());
        this.turn();
      }
    } catch (error) {
      if (socket === this.socket) throw error; // else it was closed while we listened
    }
  }

  /** A socket takes one message at a time. */
  private async drain(socket: Dealer): Promise<void> {
    this.isSending = true;
    try {
      for (let next = this.unsent.shift(); next !== undefined; next = this.unsent.shift()) {
        await socket.send(next.map((frame) => Buffer.from(frame.buffer, frame.byteOffset, frame.length)));
        if (this.socket !== undefined && socket !== this.socket) return; // what is queued now belongs to another
      }
    } catch (error) {
      if (socket === this.socket) throw error;
    } finally {
      this.isSending = false;
      if (this.socket !== undefined && this.socket !== socket && this.unsent.length > 0) void this.drain(this.socket);
    }
  }
}
