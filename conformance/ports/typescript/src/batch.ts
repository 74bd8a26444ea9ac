// Calls and results in columns. Spec chapter 08 (BAT, PAY).

import * as codes from "../build/schema/constants.js";
import { TaskError, type TaskHeader } from "../build/schema/tasks.js";
import { type Bytes, fromHex, type Id, idBytes, idColumn, joined, numberColumn, numbersOf, toHex } from "./bytes.js";
import { type Columns, type Fill, isWhole, type Limits, listItemsMax, put, Refusal, rootOf } from "./envelope.js";

/** What all calls of one batch have in common. */
export interface CallOptions {
  readonly priority: number;
  readonly timeoutSeconds: number;
  readonly retries: number;
  readonly streamOutput: boolean;
  readonly capabilities: Readonly<Record<string, number>>;
}

export interface Argument {
  readonly kind: number;
  readonly bytes: Bytes;
}

export interface Row {
  readonly task: Id;
  readonly function: Id;
  readonly arguments: readonly Argument[];
}

/** Why a task did not succeed. */
export interface Failure {
  code: number;
  type: string;
  message: string;
  text: string;
  exitCode: number;
  workers: string[];
}

/** How a task ended, as the scheduler tells it: a value, the object it lies in, or a failure. */
export interface Result {
  task: Id;
  status: number;
  value: Bytes;
  object?: Id;
}

const rowBytes = 2 * idBytes + 2 + 2; // of a call in the columns, with a function of its own
const partBytes = 1 + 4;
const envelopeSpare = 8192; // for the header
const functionsMax = 65535; // what their columns can say
const partsMax = 65535;

/** How many of these rows, from the first on, make a batch that keeps every limit (CLI-4). Zero: not even the first. */
export function batchLength(rows: readonly Row[], limits: Limits): number {
  let envelope = envelopeSpare;
  let payload = 0;
  for (const [index, row] of rows.entries()) {
    envelope += rowBytes + partBytes * row.arguments.length;
    payload += row.arguments.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const isSayable = index < Math.min(limits.batchTasks, functionsMax) && row.arguments.length <= partsMax;
    if (!isSayable || envelope > limits.envelopeBytes || payload > limits.payloadFrameBytes) return index;
  }
  return rows.length;
}

/** A Submit of RAW calls. */
export function submission(rows: readonly Row[], options: CallOptions, resultSalt: Bytes): { fill: Fill; payload: Bytes } {
  const functions = [...new Set(rows.map((row) => row.function))];
  const indexes = new Map(functions.map((id, index) => [id, index]));
  const parts = rows.flatMap((row) => row.arguments);
  const fill: Fill = (body) => {
    const batch = body._initSubmit();
    const header = batch._initHeader();
    fillHeader(header, options);
    put((length) => header._initResultSalt(length), resultSalt);
    put((length) => batch._initFunctions(length), idColumn(functions));
    put((length) => batch._initIds(length), idColumn(rows.map((row) => row.task)));
    put((length) => batch._initFunctionIndexes(length), numberColumn(2, rows.map((row) => indexes.get(row.function) ?? 0)));
    put((length) => batch._initPartCounts(length), numberColumn(2, rows.map((row) => row.arguments.length)));
    put((length) => batch._initPartKinds(length), numberColumn(1, parts.map((part) => part.kind)));
    put((length) => batch._initPartSizes(length), numberColumn(4, parts.map((part) => part.bytes.length)));
  };
  return { fill, payload: joined(parts.map((part) => part.bytes)) };
}

function fillHeader(header: TaskHeader, options: CallOptions): void {
  header.callFormat = codes.callRaw;
  header.priority = options.priority;
  header.timeoutSeconds = options.timeoutSeconds;
  header.retries = options.retries;
  header.flags = options.streamOutput ? codes.flagStreamOutput : 0;
  const wanted = Object.entries(options.capabilities);
  const capabilities = header._initCapabilities(wanted.length);
  wanted.forEach(([name, amount], index) => Object.assign(capabilities.get(index), { name, amount: BigInt(amount) }));
}

const badBatch = (text: string, clause = "BAT-2"): Refusal => new Refusal(codes.badBatch, clause, `${text}: repair the sender`);

function checkLength(column: Bytes, size: number, count: number, name: string, mayBeEmpty = true): void {
  if (mayBeEmpty && column.length === 0) return;
  if (column.length !== size * count) throw badBatch(`${name} has ${column.length} bytes; ${count} items have ${size * count}`);
}

/** All of them, or a Refusal (BAT-2). */
export function readResults(columns: Columns, limits: Limits): Result[] {
  const { ids, payload } = columns;
  const count = ids.length;
  if (count === 0) throw badBatch("there is nothing in the batch");
  if (count > limits.batchTasks) throw new Refusal(codes.tooLarge, "BAT-4", `the batch has ${count} tasks: cut it smaller`);
  checkLength(columns.attempts, 2, count, "attempts");
  checkLength(columns.statuses, 1, count, "statuses");
  checkLength(columns.kinds, 1, count, "kinds");
  checkLength(columns.sizes, 4, count, "sizes", false);
  checkLength(columns.profiles, 24, count, "profiles");
  if (new Set(ids).size !== count) throw badBatch("an id comes twice in ids");
  if (numbersOf(2, columns.attempts, count, 1).includes(0)) throw badBatch("an attempt is 0");
  const statuses = numbersOf(1, columns.statuses, count, codes.statusSuccess);
  const kinds = numbersOf(1, columns.kinds, count, codes.kindInline);
  const sizes = numbersOf(4, columns.sizes, count, 0);
  if (sizes.reduce((sum, size) => sum + size, 0) !== payload.length) throw badBatch("sizes do not add up to the payload");
  let at = 0;
  return ids.map((task, row) => {
    const value = payload.slice(at, (at += sizes[row] ?? 0));
    return resultOf(task, statuses[row] ?? 0, kinds[row] ?? 0, value);
  });
}

function resultOf(task: Id, status: number, kind: number, value: Bytes): Result {
  if (status > codes.statusRefused) throw badBatch(`status ${status} is not known`);
  if (kind > codes.kindNone) throw badBatch(`kind ${kind} of a result is not known`);
  if (kind === codes.kindNone && status === codes.statusSuccess) throw badBatch("a success without a value", "BAT-11");
  if (kind === codes.kindNone && value.length > 0) throw badBatch("kind NONE with a value", "BAT-10");
  if (kind !== codes.kindObject) return { task, status, value };
  if (value.length !== idBytes) throw badBatch("an object id has not 16 bytes");
  return { task, status, value, object: toHex(value) };
}

const codesOfStatuses = [0, codes.taskRaised, codes.taskCanceled, codes.workerLost, codes.processorDied, codes.taskTimedOut, 0];

/** What a TaskError says; one that cannot be read has only the code of the status (PAY-3). */
export function readFailure(encoded: Bytes, status: number): Failure {
  const message = status === codes.statusCanceled ? "" : "the reason was not given, or cannot be read";
  const unknown = { code: codesOfStatuses[status] ?? 0, type: "", message, text: "", exitCode: 0, workers: [] };
  if (!isWhole(encoded)) return unknown;
  try {
    const error = rootOf(encoded).getRoot(TaskError);
    const { code, typeName: type, exitCode, workers: list } = error;
    if (list.length > listItemsMax) return unknown; // it claims more than there can be (LIM-4)
    const workers = Array.from({ length: list.length }, (_, index) => list.get(index));
    return { code, type, message: error.message, text: error.text, exitCode, workers };
  } catch {
    return unknown;
  }
}

export const inline = (bytes: Bytes): Argument => ({ kind: codes.kindInline, bytes });
export const object = (id: Id): Argument => ({ kind: codes.kindObject, bytes: fromHex(id) });
