// Frames to messages and back. Spec chapter 01 (FRM).
//
// What a client may receive is read in full, into plain objects: whatever Cap'n Proto has to object to is found here.

import { Data, Message as Root } from "capnp-es";

import * as codes from "../build/schema/constants.js";
import { Envelope, Envelope_Message as Body, Envelope_Message_Which as kinds } from "../build/schema/envelope.js";
import type { ResultBatch } from "../build/schema/tasks.js";
import { type Bytes, type Id, idBytes, idsOf, toHex } from "./bytes.js";

export { Body };

/** The envelope, and a payload where its kind has one. */
export type Frames = readonly Bytes[];

export interface Limits {
  inlineBytes: number;
  payloadFrameBytes: number;
  batchTasks: number;
  envelopeBytes: number;
}
export const usualLimits: Limits = { inlineBytes: 65536, payloadFrameBytes: 67108864, batchTasks: 65536, envelopeBytes: 4194304 };

/** Why a message is refused. Without `seq` it could not be numbered, and the session ends (SES-13). */
export class Refusal extends Error {
  constructor(
    readonly code: number,
    readonly clause: string,
    text: string,
    readonly isFatal = false,
    public seq?: bigint,
  ) {
    super(text);
  }
}

export interface Columns {
  ids: Id[];
  attempts: Bytes;
  statuses: Bytes;
  kinds: Bytes;
  sizes: Bytes;
  profiles: Bytes;
  payload: Bytes;
}

/** What is said, by kind. `other` is known to the protocol, and nothing that a client may receive. */
export type Said =
  | {
      kind: "welcome";
      version: number;
      serverId: Id;
      sessionId: bigint;
      resumed: boolean;
      receivedSeq: bigint;
      limits: Limits;
      heartbeatSeconds: number;
      leaseSeconds: number;
      storageAddress: string;
      ownerGrant: Bytes;
      generation: bigint;
      features: string[];
    }
  | { kind: "reject"; code: number; text: string; isStandby: boolean; retrySeconds: number }
  | { kind: "bye"; code: number; text: string }
  | { kind: "ping"; nonce: bigint }
  | { kind: "pong" }
  | { kind: "acknowledge" }
  | { kind: "error"; code: number; refSeq: bigint; fatal: boolean; text: string }
  | { kind: "results"; columns: Columns }
  | { kind: "cancelReply"; ids: Id[]; outcomes: Bytes }
  | { kind: "taskLog"; taskId: Id; stream: number; text: string }
  | { kind: "shutdownReply"; isAccepted: boolean; text: string }
  | { kind: "objectReply"; requestId: bigint; code: number; text: string }
  | { kind: "value"; requestId: bigint; totalBytes: bigint; offset: bigint; payload: Bytes }
  | { kind: "other" };

export interface Message {
  seq: bigint;
  ack: bigint;
  said: Said;
}

const withPayload: ReadonlySet<number> = new Set([Body.SUBMIT, Body.DISPATCH, Body.RESULTS, Body.PUT, Body.VALUE]);
const knownKinds: ReadonlySet<number> = new Set(Object.values(kinds));
const segmentsMax = 64;
export const listItemsMax = 65536;

function bytesOf(data: Data): Bytes {
  return data.toUint8Array().slice();
}

function idOf(data: Data, name: string): Id {
  const bytes = bytesOf(data);
  if (bytes.length !== idBytes) throw new Refusal(codes.badEnvelope, "FRM-8", `${name} has ${bytes.length} bytes; ids have 16`);
  return toHex(bytes);
}

function idColumnOf(data: Data, name: string): Id[] {
  const bytes = bytesOf(data);
  if (bytes.length % idBytes !== 0) throw new Refusal(codes.badEnvelope, "FRM-8", `${name} is no column of ids`);
  return idsOf(bytes);
}

function amountOf(number: number, name: string): number {
  if (!Number.isFinite(number) || number < 0) throw new Refusal(codes.badEnvelope, "FRM-8", `${name} is no amount`);
  return number;
}

function columnsOf(batch: ResultBatch, payload: Bytes): Columns {
  return {
    ids: idColumnOf(batch.ids, "ids"),
    attempts: bytesOf(batch.attempts),
    statuses: bytesOf(batch.statuses),
    kinds: bytesOf(batch.kinds),
    sizes: bytesOf(batch.sizes),
    profiles: bytesOf(batch.profiles),
    payload,
  };
}

function welcomeOf(body: Body): Said {
  const { version, serverId, sessionId, resumed, receivedSeq, limits, timers, storageAddress, ownerGrant, generation, features } = body.welcome;
  return {
    kind: "welcome",
    version,
    serverId: idOf(serverId, "serverId"),
    sessionId,
    resumed,
    receivedSeq,
    limits: {
      inlineBytes: limits.inlineBytes,
      payloadFrameBytes: Number(limits.payloadFrameBytes),
      batchTasks: limits.batchTasks,
      envelopeBytes: limits.envelopeBytes,
    },
    heartbeatSeconds: amountOf(timers.heartbeatSeconds, "heartbeatSeconds"),
    leaseSeconds: amountOf(timers.leaseSeconds, "leaseSeconds"),
    storageAddress,
    ownerGrant: bytesOf(ownerGrant),
    generation,
    features: Array.from({ length: features.length }, (_, index) => features.get(index)),
  };
}

const readers: Readonly<Record<number, (body: Body, payload: Bytes) => Said>> = {
  [Body.WELCOME]: welcomeOf,
  [Body.REJECT]: ({ reject }) => ({
    kind: "reject",
    code: reject.code,
    text: reject.text,
    isStandby: reject.isStandby,
    retrySeconds: amountOf(reject.retrySeconds, "retrySeconds"),
  }),
  [Body.BYE]: ({ bye: { code, text } }) => ({ kind: "bye", code, text }),
  [Body.PING]: ({ ping: { nonce } }) => ({ kind: "ping", nonce }),
  [Body.PONG]: () => ({ kind: "pong" }),
  [Body.ACKNOWLEDGE]: () => ({ kind: "acknowledge" }),
  [Body.ERROR]: ({ error: { code, refSeq, fatal, text } }) => ({ kind: "error", code, refSeq, fatal, text }),
  [Body.RESULTS]: ({ results }, payload) => ({ kind: "results", columns: columnsOf(results, payload) }),
  [Body.CANCEL_REPLY]: ({ cancelReply: { ids, outcomes } }) => ({
    kind: "cancelReply",
    ids: idColumnOf(ids, "ids"),
    outcomes: bytesOf(outcomes),
  }),
  [Body.TASK_LOG]: ({ taskLog: { taskId, stream, text } }) => ({ kind: "taskLog", taskId: idOf(taskId, "taskId"), stream, text }),
  [Body.SHUTDOWN_REPLY]: ({ shutdownReply: { isAccepted, text } }) => ({ kind: "shutdownReply", isAccepted, text }),
  [Body.OBJECT_REPLY]: ({ objectReply: { requestId, code, text } }) => ({ kind: "objectReply", requestId, code, text }),
  [Body.VALUE]: ({ value: { requestId, totalBytes, offset } }, payload) => ({ kind: "value", requestId, totalBytes, offset, payload }),
};

/** The segments fill the frame, neither more nor less (FRM-6, FRM-7). */
export function isWhole(frame: Bytes): boolean {
  if (frame.length < 8) return false;
  const view = new DataView(frame.buffer, frame.byteOffset, frame.length);
  const count = view.getUint32(0, true) + 1;
  const tableBytes = Math.ceil((4 + 4 * count) / 8) * 8;
  if (count > segmentsMax || frame.length < tableBytes) return false;
  let words = 0;
  for (let index = 0; index < count; ++index) words += view.getUint32(4 + 4 * index, true);
  return frame.length === tableBytes + 8 * words;
}

function checkPayload(body: Body, promised: number, payload: Frames, limits: Limits): Bytes {
  const right = withPayload.has(body.which()) ? 1 : 0;
  if (promised !== right || payload.length !== right) {
    const text = `this kind has ${right} payload frames; its envelope says ${promised} and ${payload.length} came`;
    throw new Refusal(codes.badFraming, "FRM-2", text);
  }
  const frame = payload[0] ?? new Uint8Array();
  if (frame.length > limits.payloadFrameBytes) {
    throw new Refusal(codes.tooLarge, "FRM-5", `the payload has ${frame.length} bytes: cut it smaller`);
  }
  return frame;
}

/** capnp-es reads U+FFFD where a text is no UTF-8. Who means that character has its bytes in the frame. */
function checkTexts(said: Said, frame: Bytes): void {
  const isReplaced = Object.values(said).some((value) => typeof value === "string" && value.includes("\ufffd"));
  if (isReplaced && !Buffer.from(frame).includes("\ufffd")) throw new Refusal(codes.badEnvelope, "FRM-8", "a text is not UTF-8");
}

/** A copy to read from: a Buffer of Node's is often a piece of a larger one. */
export const rootOf = (bytes: Bytes): Root => new Root(new Uint8Array(bytes).buffer, false);

/** Throws a Refusal, and nothing else. */
export function readMessage(frames: Frames, limits: Limits): Message {
  const [envelopeFrame = new Uint8Array(), ...payload] = frames;
  let seq: bigint | undefined;
  try {
    if (envelopeFrame.length > limits.envelopeBytes) {
      throw new Refusal(codes.tooLarge, "FRM-4", `the envelope has ${envelopeFrame.length} bytes`, true);
    }
    if (!isWhole(envelopeFrame)) throw new Refusal(codes.badEnvelope, "FRM-6", "this is no envelope", true);
    const envelope = rootOf(envelopeFrame).getRoot(Envelope);
    const { ack, message: body } = envelope;
    seq = envelope.seq;
    if (!knownKinds.has(body.which())) {
      throw new Refusal(codes.unknownMessage, "ERR-2", "this client does not know messages of that kind: do without");
    }
    const frame = checkPayload(body, envelope.payloadFrames, payload, limits);
    const said = readers[body.which()]?.(body, frame) ?? { kind: "other" };
    checkTexts(said, envelopeFrame);
    return { seq, ack, said };
  } catch (error) {
    if (!(error instanceof Refusal)) {
      throw new Refusal(codes.badEnvelope, "FRM-8", `the envelope cannot be read: ${String(error)}`, seq === undefined, seq);
    }
    throw new Refusal(error.code, error.clause, error.message, error.isFatal || seq === undefined, seq);
  }
}

export type Fill = (body: Body) => void;

/** `payload` is given for the kinds that have a payload frame, and for no other (FRM-2). */
export function writeMessage(seq: bigint, ack: bigint, fill: Fill, payload?: Bytes): Frames {
  const root = new Root();
  const envelope = root.initRoot(Envelope);
  envelope.seq = seq;
  envelope.ack = ack;
  envelope.payloadFrames = payload === undefined ? 0 : 1;
  fill(envelope.message);
  const frame = new Uint8Array(root.toArrayBuffer());
  return payload === undefined ? [frame] : [frame, payload];
}

/** Sets a Data field, given what makes room in it. */
export function put(make: (length: number) => Data, bytes: Bytes): void {
  make(bytes.length).copyBuffer(bytes);
}
