// A client that is driven by JSON lines, as ports/ADAPTER.md describes.

import { createInterface } from "node:readline";

import type { CallOptions } from "./batch.js";
import { fromHex, toHex } from "./bytes.js";
import { Client, type Happening } from "./client.js";
import { findPass } from "./pass.js";

type Json = Record<string, unknown>;

const say = (line: Json): void => void process.stdout.write(`${JSON.stringify(line)}\n`);

function eventOf(happening: Happening): Json {
  switch (happening.kind) {
    case "ended": {
      const { task, status, value, failure } = happening;
      if (failure === undefined) return { event: "result", task, status, value: toHex(value) };
      const { code, type, message, text, exitCode: exit_code, workers } = failure;
      return { event: "result", task, status, error: { code, type, message, text, exit_code, workers } };
    }
    case "cancelAnswered":
      return { event: "cancel", task: happening.task, outcome: happening.outcome };
    case "printed":
      return { event: "log", task: happening.task, stream: happening.stream, text: happening.text };
    case "shutdownAnswered":
      return { event: "shutdown", accepted: happening.isAccepted, text: happening.text };
    case "connected":
      return { event: "connected", server: happening.serverId };
    case "disconnected":
      return { event: "disconnected", code: happening.code, text: happening.text, final: happening.isOver };
  }
}

// What a command says is checked here: whatever else is passed on has the type that it should have.
function given<Type>(command: Json, name: string, type: (value: unknown) => value is Type, otherwise?: Type): Type {
  const value = command[name] ?? otherwise;
  if (!type(value)) throw new TypeError(`${String(command["op"])}: ${name} is missing, or of the wrong type`);
  return value;
}
const isNumber = (value: unknown): value is number => typeof value === "number" && Number.isFinite(value);
const isString = (value: unknown): value is string => typeof value === "string";
const isBoolean = (value: unknown): value is boolean => typeof value === "boolean";
const isStrings = (value: unknown): value is string[] => Array.isArray(value) && value.every(isString);
const isCalls = (value: unknown): value is string[][] => Array.isArray(value) && value.every(isStrings);
const isAmounts = (value: unknown): value is Record<string, number> =>
  typeof value === "object" && value !== null && Object.values(value).every(isNumber);

const optionsIn = (command: Json): CallOptions => ({
  priority: given(command, "priority", isNumber, 0),
  timeoutSeconds: given(command, "timeout", isNumber, 0),
  retries: given(command, "retries", isNumber, 0),
  streamOutput: given(command, "stream_output", isBoolean, false),
  capabilities: given(command, "capabilities", isAmounts, {}),
});

let client: Client | undefined;

function connected(): Client {
  if (client === undefined) throw new Error("connect first");
  return client;
}

const commands: Readonly<Record<string, (command: Json) => Json>> = {
  info: () => ({ adapter: 1, name: "scaler-port-typescript", version: "1.0.0", roles: ["client"], features: [] }),
  connect: (command) => {
    if (client !== undefined) throw new Error("there is a connection; close it first");
    const fresh = new Client((happening) => say(eventOf(happening)), {
      heartbeat: given(command, "heartbeat", isNumber, 2),
      lease: given(command, "lease", isNumber, 60),
      giveUp: given(command, "give_up", isNumber, 60),
      pass: findPass(),
    });
    fresh.connect(given(command, "scheduler", isString));
    client = fresh;
    return {};
  },
  submit: (command) => ({
    task: connected().submit({
      function: given(command, "function", isString),
      arguments: given(command, "arguments", isStrings, []).map(fromHex),
      options: optionsIn(command),
    }),
  }),
  map: (command) => {
    const options = optionsIn(command);
    const name = given(command, "function", isString);
    const calls = given(command, "calls", isCalls).map((call) => call.map(fromHex));
    return { tasks: calls.map((call) => connected().submit({ function: name, arguments: call, options })) };
  },
  cancel: (command) => {
    connected().cancel(given(command, "tasks", isStrings), given(command, "grace", isNumber, 1));
    return {};
  },
  shutdown: (command) => {
    connected().shutdownCluster(given(command, "grace", isNumber, 1));
    return {};
  },
  close: () => {
    connected().leave();
    client = undefined;
    return {};
  },
  exit: () => {
    lines.close();
    return {};
  },
};

function obey(line: string): void {
  let command: Json;
  try {
    const parsed: unknown = JSON.parse(line);
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error();
    command = parsed as Json;
  } catch {
    return say({ id: null, error: { text: "this line is no JSON object" } });
  }
  const id = command["id"] ?? null;
  const perform = commands[String(command["op"])];
  if (perform === undefined) return say({ id, unsupported: true });
  try {
    say({ id, ok: perform(command) });
  } catch (error) {
    say({ id, error: { text: error instanceof Error ? error.message : String(error) } });
  }
}

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  if (line.trim() !== "") obey(line);
});
// The process ends by itself when the goodbye is out and nothing is left to be done.
lines.on("close", () => client?.leave());
