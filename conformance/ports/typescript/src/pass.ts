// What a dialer shows of itself: the servers' public keys, a CURVE pair of its own, and a ticket. Spec chapter 17 (SEC).

import { createPrivateKey, createPublicKey, randomBytes } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import * as os from "node:os";

import { blake2b } from "@noble/hashes/blake2.js";

import * as codes from "../build/schema/constants.js";
import { type Bytes, joined, utf8 } from "./bytes.js";

export interface Pass {
  /** In the order in which they are tried. */
  readonly serverKeys: readonly Bytes[];
  readonly publicKey: Bytes;
  readonly secretKey: Bytes;
  /** Goes into Hello.credential. */
  readonly ticket: Bytes;
}

const keyBytes = 32;
const keysMax = 8;
const textBytesMax = 4096;
const ticketHeadBytes = 1 + 2 + 8 + keyBytes + 1; // version, roles, expiry, holder, length of the name
const ticketBytesMax = 1024;
const keyLine = /^scaler-key-1:([0-9a-f]{64})$/;
const ticketLine = /^scaler-ticket-1:([A-Za-z0-9_-]+)$/;

/**
 * From the key file or ticket file that SCALER_KEY_FILE names, or else from the text of one in SCALER_KEY; undefined,
 * which is an insecure cluster, when neither is set. Throws a sentence that says what to do, and never falls back.
 */
export function findPass(): Pass | undefined {
  const { SCALER_KEY_FILE: path, SCALER_KEY: text } = process.env;
  if (path) return passIn(readPrivateFile(path), path);
  return text ? passIn(text, "the variable SCALER_KEY") : undefined;
}

/** From the text of a key file or a ticket file; `origin` is named in errors. */
export function passIn(text: string, origin: string): Pass {
  const lines = text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "" && !line.startsWith("#"));
  const [first] = lines;
  if (first === undefined) throw new TypeError(`${origin} holds no key: write one with \`scaler_key make\``);
  const ticket = lines.length === 1 ? ticketLine.exec(first)?.[1] : undefined;
  return ticket === undefined ? passOfKeys(lines, origin) : passOfTicket(Buffer.from(ticket, "base64url"), origin);
}

function passOfTicket(content: Bytes, origin: string): Pass {
  const count = content[0] ?? 0;
  const ticketAt = 1 + (count + 1) * keyBytes;
  const ticketSize = content.length - ticketAt;
  if (count < 1 || count > keysMax || ticketSize < ticketHeadBytes || ticketSize > ticketBytesMax) {
    throw new TypeError(`${origin} holds a damaged ticket: copy the file again, or let \`scaler_key derive\` write it`);
  }
  const keys = Array.from({ length: count + 1 }, (_, row) => content.subarray(1 + row * keyBytes, 1 + (row + 1) * keyBytes));
  const secretKey = keys.pop() as Bytes;
  return { serverKeys: keys, publicKey: publicKeyOf(secretKey), secretKey, ticket: content.subarray(ticketAt) };
}

function passOfKeys(lines: readonly string[], origin: string): Pass {
  const keys = lines.map((line) => {
    const digits = keyLine.exec(line)?.[1];
    if (digits === undefined || lines.length > keysMax) {
      throw new TypeError(`${origin} is no key file: copy it again from the scheduler's machine`);
    }
    return Buffer.from(digits, "hex");
  });
  const secretKey = randomBytes(keyBytes);
  const publicKey = publicKeyOf(secretKey);
  // Servers listen with the oldest key, and take tickets that any of them has signed (SEC-12).
  const serverKeys = keys.map((key) => publicKeyOf(keyedHash(key, utf8("scaler curve 1")))).reverse();
  return { serverKeys, publicKey, secretKey, ticket: ownTicket(keys[0] as Bytes, publicKey) };
}

/** A holder of the cluster's key signs a ticket of its own: all roles, and it never expires (SEC-9). */
function ownTicket(key: Bytes, holder: Bytes): Bytes {
  const roles = [codes.roleClient, codes.roleWorker, codes.roleScheduler, codes.roleMonitor, codes.roleManager];
  const operatorBit = 15;
  const user = utf8(os.userInfo().username);
  const head = Buffer.alloc(ticketHeadBytes);
  head.writeUInt8(1, 0);
  head.writeUInt16LE([...roles, operatorBit].reduce((bits, role) => bits | (1 << role), 0), 1);
  head.set(holder, 11);
  head.writeUInt8(user.length, ticketHeadBytes - 1);
  const content = joined([head, user]);
  return joined([content, keyedHash(keyedHash(key, utf8("scaler ticket 1")), content)]);
}

/** The keyed BLAKE2b hash of a label or of a ticket (SEC-8). */
const keyedHash = (key: Bytes, content: Bytes): Bytes => blake2b(content, { key, dkLen: keyBytes });

/** X25519 of the secret key and the base point. Node takes and gives keys in DER, behind heads of fixed length. */
function publicKeyOf(secretKey: Bytes): Bytes {
  const der = joined([Buffer.from("302e020100300506032b656e04220420", "hex"), secretKey]) as Buffer;
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  return createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-keyBytes);
}

/** The file, if it is this account's alone (SEC-7). */
function readPrivateFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0));
  try {
    const found = fstatSync(file);
    const isMine = process.getuid === undefined || (found.uid === process.getuid() && (found.mode & 0o077) === 0);
    if (!found.isFile() || !isMine) {
      throw new TypeError(`${path} is no file that this account owns and no other user can read: copy it, and chmod 600 it`);
    }
    const content = Buffer.alloc(textBytesMax + 1);
    const size = readSync(file, content, 0, content.length, 0);
    if (size > textBytesMax) throw new TypeError(`${path} is too large to be a key file`);
    return content.toString("utf8", 0, size);
  } finally {
    closeSync(file);
  }
}

const z85Digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/** As ZeroMQ's options take keys: five digits for four bytes. */
export function z85(bytes: Bytes): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 4) {
    let number = Buffer.from(bytes).readUInt32BE(at);
    let group = "";
    for (let digit = 0; digit < 5; ++digit, number = Math.floor(number / 85)) group = z85Digits.charAt(number % 85) + group;
    text += group;
  }
  return text;
}
