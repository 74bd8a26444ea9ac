// A session on a socket. Spec chapter 01 (FRM).

import { randomBytes } from "node:crypto";
import { performance } from "node:perf_hooks";

import { Dealer } from "zeromq";

import type { Hello } from "../build/schema/session.js";
import type { Bytes, Id } from "./bytes.js";
import { type Fill, type Frames, put, type Refusal } from "./envelope.js";
import { type Pass, z85 } from "./pass.js";
import { Session, type SessionEvent } from "./session.js";

/** The monotonic clock of this process, in seconds. */
export const steadyNow = (): number => performance.now() / 1000;

const redialPause = 0.3;
const leaveMilliseconds = 1000;
const addressesMax = 8;

/** A fresh name for every socket: 16 bytes, none of them zero (FRM-3). */
const routingId = (): string => randomBytes(12).toString("base64url");

/** Throws a sentence for whoever has given the address. */
export function checkAddress(address: string): void {
  const [, port] = /^(?:tcp:\/\/.+:(\d{1,5})|ipc:\/\/.+)$/.exec(address) ?? [undefined, "0"];
  const isRight = port === undefined || (Number(port) > 0 && Number(port) < 65536);
  if (!isRight) throw new TypeError(`'${address}' is no address like tcp://127.0.0.1:2345 or ipc:///tmp/scheduler`);
}

/** Of a list like tcp://a:2345,tcp://b:2345, at most eight (HSK-39). Throws as `checkAddress`. */
export function addressesOf(list: string): string[] {
  const addresses = list.split(",");
  addresses.forEach(checkAddress);
  if (addresses.length > addressesMax) throw new TypeError(`there are more than eight addresses in '${list}'`);
  return addresses;
}

/** A socket, which takes one message at a time: what is queued leaves in order. */
class Wire {
  // Marks drop in silence; the session bounds what is queued (FRM-12).
  readonly dealer = new Dealer({ routingId: routingId(), linger: 0, sendHighWaterMark: 0, receiveHighWaterMark: 0 });
  private readonly queue: Frames[] = [];
  private isSending = false;
  private isLeaving = false;

  constructor(address: string, pass: Pass | undefined, serverKey: Bytes | undefined) {
    if (pass !== undefined && serverKey !== undefined) {
      this.dealer.curveServerKey = z85(serverKey);
      this.dealer.curvePublicKey = z85(pass.publicKey);
      this.dealer.curveSecretKey = z85(pass.secretKey);
    }
    this.dealer.connect(address);
  }

  send(messages: readonly Frames[]): void {
    for (const frames of messages) this.queue.push(frames);
    if (!this.isSending) void this.drain();
  }

  /** Closes when what is queued is out; ZeroMQ has another second for it. */
  leave(): void {
    this.dealer.linger = leaveMilliseconds;
    this.isLeaving = true;
    if (!this.isSending) this.dealer.close();
  }

  private async drain(): Promise<void> {
    this.isSending = true;
    try {
      for (let next = this.queue.shift(); next !== undefined && !this.dealer.closed; next = this.queue.shift()) {
        await this.dealer.send(next.map((frame) => Buffer.from(frame.buffer, frame.byteOffset, frame.length)));
      }
    } catch (error) {
      if (!this.dealer.closed) throw error; // else it was given up while it sent
    } finally {
      this.isSending = false;
    }
    if (this.isLeaving) this.dealer.close();
  }
}

export class Link {
  readonly session: Session;
  private addresses: string[] = [];
  /** Sockets that got no Welcome: they say which address and which of the servers' keys is next. */
  private misses = 0;
  private welcomesBefore = 0; // the present socket
  private wire: Wire | undefined;
  private timer: NodeJS.Timeout | undefined;
  private redialTimer: NodeJS.Timeout | undefined;
  private isTurnDue = false;

  constructor(
    introduce: (hello: Hello) => void,
    private readonly onEvent: (event: SessionEvent) => void,
    timers: { heartbeat: number; lease: number },
    /** None: the cluster is insecure. */
    private readonly pass: Pass | undefined,
  ) {
    this.session = new Session((hello) => {
      introduce(hello);
      if (pass !== undefined) put((length) => hello._initCredential(length), pass.ticket);
    }, timers);
  }

  /** The one that is dialed, or was last. */
  get address(): string {
    return this.addresses[this.misses % this.addresses.length] ?? "";
  }

  dial(addresses: string, peerId: Id): void {
    this.addresses = addressesOf(addresses);
    this.misses = 0;
    this.dialNow(peerId);
  }

  dialNow(peerId: Id): void {
    clearTimeout(this.redialTimer);
    this.session.dial(peerId, steadyNow());
    this.turnSoon();
  }

  /** The same servers, after a pause: for when a session is over and another is wanted. */
  dialAgain(peerId: Id): void {
    clearTimeout(this.redialTimer);
    this.redialTimer = setTimeout(() => this.dialNow(peerId), redialPause * 1000);
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

  /** Says Bye, if there is a session to be left. */
  leave(code: number, text: string): void {
    this.session.leave(code, text, steadyNow());
    const { wantsFreshSocket, outgoing } = this.session.take();
    if (!wantsFreshSocket) this.wire?.send(outgoing);
    this.wire?.leave();
    this.wire = undefined;
    clearTimeout(this.timer);
    clearTimeout(this.redialTimer);
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
      this.wire?.send(step.outgoing);
      step.events.forEach(this.onEvent);
      hasMore = this.session.settle(steadyNow()) || step.events.length > 0 || step.outgoing.length > 0;
    }
    clearTimeout(this.timer);
    const seconds = this.session.nextDeadline() - steadyNow();
    if (Number.isFinite(seconds)) this.timer = setTimeout(() => this.turn(), Math.max(0, seconds * 1000));
  }

  /** The server that has welcomed us is dialed again; the next one, in turn, when there was no Welcome (HSK-39). */
  private openSocket(): void {
    if (this.wire !== undefined && this.session.welcomeCount === this.welcomesBefore) this.misses += 1;
    this.welcomesBefore = this.session.welcomeCount;
    this.wire?.dealer.close();
    // ZeroMQ says nothing of a wrong key: the Hello is not answered, and the next socket tries the next key (SEC-12).
    const keys = this.pass?.serverKeys ?? [];
    this.wire = new Wire(this.address, this.pass, keys[Math.floor(this.misses / this.addresses.length) % keys.length]);
    void this.listen(this.wire);
  }

  private async listen(wire: Wire): Promise<void> {
    try {
      for await (const frames of wire.dealer) {
        if (wire !== this.wire) return; // given up
        this.session.receive(frames, steadyNow());
        this.turn();
      }
    } catch (error) {
      if (wire === this.wire) throw error; // else it was closed while we listened
    }
  }
}
