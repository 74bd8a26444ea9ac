// Objects by id, in chunks. Spec chapter 12 (STO).

import * as codes from "../build/schema/constants.js";
import { type Bytes, fromHex, type Id, idColumn, joined, randomId } from "./bytes.js";
import { type Fill, put, Refusal, type Said } from "./envelope.js";
import { Link, steadyNow } from "./link.js";
import type { Pass } from "./pass.js";
import type { SessionEvent } from "./session.js";

const chunkBytes = 8 << 20;
const chunksUnansweredMax = 8; // STO-6
const firstChunkBytes = 64 << 10; // all that wait may be answered at once

export class StorageError extends Error {
  constructor(
    readonly code: number,
    text: string,
  ) {
    super(text);
  }
}

interface Transfer {
  /** Asks for what may be asked for now. */
  advance(): void;
  /** Its requests were forgotten with their session. */
  beginAgain(): void;
  fail(error: StorageError): void;
}

type Answer = (said: Said) => void;

/** In whose name something is stored or read, and what proves that we may name it: empty in an insecure cluster (STO-32). */
export interface Owner {
  readonly id: Id;
  readonly grant: Bytes;
}

/** Asks for objects and stores them, over one session. A lost session or a restarted storage costs nothing but time. */
export class ObjectStore {
  private readonly link: Link;
  private serverId: Id = "";
  private refused: StorageError | undefined;
  private transfers = new Set<Transfer>();
  private requests = new Map<bigint, { seq: bigint; isChunk: boolean; answer: Answer }>();
  private lastRequest = 0n;
  private chunksUnanswered = 0;

  /** `restarted` is called when another life of the storage answers: all objects are gone (CLI-13). */
  constructor(
    role: number,
    pass: Pass | undefined,
    private readonly restarted: () => void,
  ) {
    const timers = { heartbeat: 2, lease: 60 };
    this.link = new Link((hello) => void (hello.role = role), (event) => this.onEvent(event), timers, pass);
  }

  /** Another address than before is another storage, which has nothing yet. */
  use(address: string): void {
    if (address === this.link.address) return;
    if (this.link.address !== "") {
      this.link.leave(codes.ok, "");
      this.beginAgain();
    }
    this.link.dial(address, randomId());
  }

  leave(): void {
    if (this.link.address !== "") this.link.leave(codes.ok, "");
  }

  put(id: Id, owner: Owner, value: Bytes): Promise<void> {
    return new Promise((resolve, reject) => this.begin((end) => this.upload(id, owner, value, end(resolve)), reject));
  }

  get(id: Id, reader: Owner, waitSeconds: number): Promise<Bytes> {
    const waitUntil = steadyNow() + waitSeconds;
    return new Promise((resolve, reject) => this.begin((end) => this.download(id, reader, waitUntil, end(resolve)), reject));
  }

  release(owner: Owner, ids: readonly Id[]): void {
    if (ids.length > 0) this.begin((end) => this.letGo(owner, ids, end(() => undefined)), () => undefined);
  }

  // ---------------------------------------------------------------- transfers

  private begin(
    make: (end: <Value>(resolve: (value: Value) => void) => (outcome: Value | StorageError) => void) => Omit<Transfer, "fail">,
    reject: (error: StorageError) => void,
  ): void {
    const transfer: Transfer = {
      ...make((resolve) => (outcome) => {
        this.transfers.delete(transfer);
        if (outcome instanceof StorageError) reject(outcome);
        else resolve(outcome);
      }),
      fail: (error) => {
        this.transfers.delete(transfer);
        reject(error);
      },
    };
    this.transfers.add(transfer);
    this.advance();
  }

  private upload(id: Id, owner: Owner, value: Bytes, end: (outcome: void | StorageError) => void): Omit<Transfer, "fail"> {
    let sentBytes = -1; // nothing was sent, not even the one chunk of an empty object
    let unanswered = 0;
    const send = (offset: number): void => {
      const chunk = value.subarray(offset, offset + chunkBytes);
      sentBytes = offset + chunk.length;
      ++unanswered;
      const fill = (requestId: bigint): Fill => (body) => {
        const message = body._initPut();
        Object.assign(message, { requestId, totalBytes: BigInt(value.length), offset: BigInt(offset) });
        put((length) => message._initObjectId(length), fromHex(id));
        put((length) => message._initOwner(length), fromHex(owner.id));
        put((length) => message._initGrant(length), owner.grant);
      };
      this.ask(fill, true, (said) => {
        --unanswered;
        const failure = failureOf(said);
        if (failure !== undefined) end(failure);
        else if (sentBytes >= value.length && unanswered === 0) end();
      }, chunk);
    };
    return {
      advance: () => {
        while (this.chunksUnanswered < chunksUnansweredMax && (sentBytes < 0 || sentBytes < value.length)) send(Math.max(sentBytes, 0));
      },
      beginAgain: () => {
        sentBytes = -1;
        unanswered = 0;
      },
    };
  }

  /** A first Get waits for the object and brings little; the rest is asked for when its size is known. */
  private download(id: Id, reader: Owner, waitUntil: number, end: (outcome: Bytes | StorageError) => void): Omit<Transfer, "fail"> {
    let pieces: Bytes[] = [];
    let hasBytes = 0;
    let totalBytes: bigint | undefined;
    let isAsked = false;
    const onAnswer = (said: Said): void => {
      isAsked = false;
      if (said.kind !== "value") return end(failureOf(said) ?? new StorageError(codes.badChunk, "the storage sent no value"));
      const isStuck = said.payload.length === 0 && BigInt(hasBytes) < said.totalBytes;
      if (said.offset !== BigInt(hasBytes) || isStuck) {
        return end(new StorageError(codes.badChunk, "the storage sent another part than was asked for"));
      }
      ({ totalBytes } = said);
      pieces.push(said.payload);
      hasBytes += said.payload.length;
      if (BigInt(hasBytes) >= totalBytes) end(joined(pieces));
    };
    return {
      advance: () => {
        const isFirst = totalBytes === undefined;
        if (isAsked || (!isFirst && this.chunksUnanswered >= chunksUnansweredMax)) return;
        isAsked = true;
        const waitSeconds = isFirst ? Math.max(0, waitUntil - steadyNow()) : 0;
        const fill = (requestId: bigint): Fill => (body) => {
          const message = body._initGet();
          put((length) => message._initObjectId(length), fromHex(id));
          if (reader.grant.length > 0) put((length) => message._initOwner(length), fromHex(reader.id));
          put((length) => message._initGrant(length), reader.grant);
          Object.assign(message, { requestId, offset: BigInt(hasBytes), chunkBytes: isFirst ? firstChunkBytes : chunkBytes, waitSeconds });
        };
        this.ask(fill, !isFirst, onAnswer);
      },
      beginAgain: () => {
        pieces = [];
        hasBytes = 0;
        totalBytes = undefined;
        isAsked = false;
      },
    };
  }

  private letGo(owner: Owner, ids: readonly Id[], end: (outcome: void | StorageError) => void): Omit<Transfer, "fail"> {
    let isAsked = false;
    const fill = (requestId: bigint): Fill => (body) => {
      const message = body._initRelease();
      message.requestId = requestId;
      put((length) => message._initOwner(length), fromHex(owner.id));
      put((length) => message._initGrant(length), owner.grant);
      put((length) => message._initIds(length), idColumn(ids));
    };
    return {
      advance: () => {
        if (isAsked) return;
        isAsked = true;
        this.ask(fill, false, () => end());
      },
      beginAgain: () => void (isAsked = false),
    };
  }

  private ask(fill: (requestId: bigint) => Fill, isChunk: boolean, answer: Answer, payload?: Bytes): void {
    const requestId = ++this.lastRequest;
    if (isChunk) ++this.chunksUnanswered;
    this.requests.set(requestId, { seq: this.link.send(fill(requestId), payload), isChunk, answer });
  }

  private advance(): void {
    const { refused } = this;
    if (refused !== undefined) [...this.transfers].forEach((transfer) => transfer.fail(refused));
    else if (this.link.session.isOpen) [...this.transfers].forEach((transfer) => transfer.advance());
  }

  private beginAgain(): void {
    this.requests.clear();
    this.chunksUnanswered = 0;
    this.transfers.forEach((transfer) => transfer.beginAgain());
  }

  // ---------------------------------------------------------------- the session

  private onEvent(event: SessionEvent): void {
    if (event.kind === "lost") {
      this.beginAgain();
      if (!event.isOver) return;
      if (event.isRejected && event.code !== codes.shuttingDown) {
        this.refused = new StorageError(event.code, event.text); // it is not asked again, and nobody is left waiting (HSK-12)
      } else {
        this.link.dialAgain(randomId());
      }
    } else if (event.kind === "opened") {
      const { serverId } = this.link.session.terms;
      const isAnotherLife = this.serverId !== "" && this.serverId !== serverId;
      this.serverId = serverId;
      if (isAnotherLife) this.restarted();
    } else {
      this.onMessage(event.message.said, event.message.seq);
    }
    this.advance();
  }

  private onMessage(said: Said, seq: bigint): void {
    if (said.kind === "objectReply" || said.kind === "value") {
      this.answer(said.requestId, said);
    } else if (said.kind === "error") {
      const refused = [...this.requests].find(([, request]) => request.seq === said.refSeq);
      if (refused !== undefined) this.answer(refused[0], said);
    } else {
      this.link.refuse(new Refusal(codes.notAllowed, "HSK-13", "a storage does not send that", false, seq));
    }
  }

  private answer(requestId: bigint, said: Said): void {
    const request = this.requests.get(requestId);
    if (request === undefined) return;
    this.requests.delete(requestId);
    if (request.isChunk) --this.chunksUnanswered;
    request.answer(said);
  }
}

function failureOf(said: Said): StorageError | undefined {
  const isFailure = said.kind === "error" || (said.kind === "objectReply" && said.code !== codes.ok);
  return isFailure ? new StorageError(said.code, said.text) : undefined;
}

/** Where the storage is when the Welcome does not say: beside the scheduler (HSK-18). */
export const storageBeside = (address: string): string =>
  address.startsWith("ipc://") ? `${address}-storage` : address.replace(/\d+$/, (port) => String(Number(port) + 1));
