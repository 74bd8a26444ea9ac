// Bytes, ids and the packed columns of batches. Spec chapters 08 (BAT) and 12 (STO-2).

import { randomBytes } from "node:crypto";

import { blake2b } from "@noble/hashes/blake2.js";

export type Bytes = Uint8Array;

/** Sixteen bytes, as 32 hexadecimal digits: something that can be compared and be the key of a Map. */
export type Id = string;
export const idBytes = 16;

export const toHex = (bytes: Bytes): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("hex");

export function fromHex(hex: string): Bytes {
  const bytes = Buffer.from(hex, "hex"); // as far as the digits go
  if (bytes.length * 2 !== hex.length) throw new TypeError("expected bytes as pairs of hexadecimal digits");
  return bytes;
}

export const randomId = (): Id => toHex(randomBytes(idBytes));

/** Of functions, which are named by their content (STO-2). */
export const contentId = (bytes: Bytes): Id => toHex(blake2b(bytes, { dkLen: idBytes }));

export const utf8 = (text: string): Bytes => new TextEncoder().encode(text);

export const joined = (pieces: readonly Bytes[]): Bytes => Buffer.concat(pieces);

export const idColumn = (ids: readonly Id[]): Bytes => joined(ids.map(fromHex));

export const idsOf = (column: Bytes): Id[] =>
  Array.from({ length: column.length / idBytes }, (_, row) => toHex(column.subarray(row * idBytes, (row + 1) * idBytes)));

/** Numbers of 1, 2 or 4 bytes, packed and little-endian (BAT-1). */
export function numberColumn(size: 1 | 2 | 4, numbers: readonly number[]): Bytes {
  const column = Buffer.alloc(size * numbers.length);
  numbers.forEach((number, row) => column.writeUIntLE(number, row * size, size));
  return column;
}

/** The numbers of a column; an empty one stands for the default in every row. */
export function numbersOf(size: 1 | 2 | 4, column: Bytes, count: number, otherwise: number): number[] {
  if (column.length === 0) return Array<number>(count).fill(otherwise);
  const buffer = Buffer.from(column.buffer, column.byteOffset, column.length);
  return Array.from({ length: count }, (_, row) => buffer.readUIntLE(row * size, size));
}
