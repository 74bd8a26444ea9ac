// What failed, grouped by what it was; and what happened to the cluster.
import { bytes, clock, count, plural, seconds, taskButton, taskName } from "./format.js";
import { Table, matches, words } from "./table.js";

const NOT_WELL = ["failed", "worker_lost", "refused"];
const FAILURES_KEPT = 2000, EVENTS_KEPT = 1000;
const BAD = new Set([
  "worker_lost", "storage_lost", "storage_trouble", "storage_spilling", "manager_trouble", "worker_trouble",
  "processor_died", "client_lost", "limit_reached", "scheduler_restarted", "scheduler_took_over",
]);
const SHORT_ID = /\b[0-9a-f]{8}:\d{1,9}\b/g;
const HOLDS = new Set(["worker_lost", "worker_left"]);
const at = (id) => document.getElementById(id);
const number = (key, title, show = count) => ({ key, title, show, number: true });
const text = (key, title) => ({ key, title });

export class Errors {
  constructor(page, openTask) {
    this.page = page;
    this.chosen = null;  // the key of a group
    const choose = (group) => { this.chosen = group.key; this.show(); };
    this.groups = new Table(at("error-groups"), [
      number("count", "Count"), { key: "function", title: "Function", button: choose }, text("type", "Error"),
      text("line", "First line"), number("last", "Last", clock), number("first", "First", clock), text("workers", "Workers"),
    ], { caption: "Errors by function, type and first line", sort: { key: "last", down: true }, rowClass: (row) =>
      (row.key === this.chosen ? "chosen" : "") });
    this.tasks = new Table(at("error-tasks"), [
      number("at", "Ended", clock), { key: "task", title: "Task", show: taskName, button: (row) => openTask(row.task) },
      text("function", "Function"), text("status", "Status"), text("type", "Error"), text("line", "First line"),
      number("lasted", "Ran", seconds), number("attempt", "Attempt"), text("worker", "Worker"), text("client", "Client"),
    ], { caption: "Tasks that failed, the latest first", empty: "" });
    this.events = new Table(at("event-table"), [
      number("at", "Time", clock), { key: "kind", title: "Event", show: (kind) => kind.replaceAll("_", " ") },
      { key: "subject", title: "Name", draw: (cell, { kind, subject }) => linked(cell, subject, kind === "control", openTask) },
      { key: "text", title: "Text", kind: "long", draw: (cell, { kind, text }) => linked(cell, text, HOLDS.has(kind), openTask) },
      number("tasks", "Tasks run again", (value) => (value ? count(value) : "")),
    ], { caption: "What happened to the cluster, the latest first", rowClass: (row) => (BAD.has(row.kind) ? "silent" : "") });
    at("error-search").addEventListener("input", () => this.show());
    at("event-search").addEventListener("input", () => this.showEvents());
  }

  take(failures) {
    const kept = this.page.failures;
    for (const one of failures) {
      kept.push(one);
      this.page.errors.set(one.task, [one.type, one.line].filter(Boolean).join(": "));
    }
    const most = Math.max(0, kept.length - FAILURES_KEPT);
    for (const one of kept.splice(0, most)) this.page.errors.delete(one.task);
    this.label();
  }

  takeEvents(events) {
    const kept = this.page.events;
    for (const one of events) kept.push(one);
    if (kept.length > EVENTS_KEPT) kept.splice(0, kept.length - EVENTS_KEPT);
  }

  label() {
    const { length } = this.page.failures;
    at("tab-errors").textContent = length ? `Errors (${count(length)})` : "Errors";
  }

  show() {
    const wanted = words(at("error-search"));
    const found = this.page.failures.filter((one) => matches(wanted, one.function, one.type, one.line, one.worker,
      one.status, one.client, one.user, one.task, taskName(one.task)));
    const groups = grouped(found);
    if (!groups.some((one) => one.key === this.chosen)) this.chosen = null;
    const loading = this.page.stream.isLoading ? "loading…" : "no task has failed, as far as the scheduler remembers";
    this.groups.empty = loading;
    this.groups.show(groups);
    const failed = NOT_WELL.reduce((sum, state) => sum + (this.page.status.tasks?.[state] ?? 0), 0);
    const most = found.length >= FAILURES_KEPT ? "the last " : "";
    at("error-count").textContent = found.length
      ? `${plural(groups.length, "kind")} of error in ${most}${plural(found.length, "task")}; ` +
        `${count(failed)} failed since the scheduler's start` : "";
    const own = this.chosen === null ? found : found.filter((one) => keyOf(one) === this.chosen);
    at("error-chosen").textContent = this.chosen === null ? "The tasks" : "Tasks of the chosen error";
    this.tasks.show([...own].reverse());
  }

  showEvents() {
    const wanted = words(at("event-search"));
    const found = this.page.events.filter((one) => matches(wanted, one.kind.replaceAll("_", " "), one.subject, one.text));
    this.events.empty = this.page.stream.isLoading ? "loading…" : "nothing has happened, as far as the scheduler remembers";
    this.events.show([...found].reverse());
  }
}

// Of an event: the tasks that it names can be opened. Elsewhere a worker may be called like a task.
function linked(cell, text, hasTasks, openTask) {
  if (cell.textContent === text && hasTasks === Boolean(cell.dataset.linked)) return;
  const ids = hasTasks ? text.match(SHORT_ID) ?? [] : [], between = hasTasks ? text.split(SHORT_ID) : [text];
  cell.replaceChildren(...between.flatMap((part, i) => (i ? [taskButton(ids[i - 1], openTask, ids[i - 1]), part] : [part])));
  cell.dataset.linked = hasTasks ? "1" : "";
  cell.title = text.length > 24 ? text : "";
}

// Lines that differ by numbers only are one kind of error: "order 5 has no price", "order 10 has no price".
const keyOf = (one) => `${one.function}\n${one.type}\n${one.line.replace(/0x[0-9a-f]+|\d+(\.\d+)?/gi, "0")}`;

function grouped(failures) {
  const groups = new Map();
  for (const one of failures) {
    const key = keyOf(one);
    const group = groups.get(key)
      ?? { key, function: one.function, type: one.type || one.status, line: one.line, count: 0, first: one.at, names: new Set() };
    group.count += 1;
    group.last = one.at;
    group.names.add(one.worker);
    groups.set(key, group);
  }
  return [...groups.values()].map((one) => ({ ...one, workers: someOf(one.names) }));
}

function someOf(names) {
  const shown = [...names].filter(Boolean);
  return shown.length > 3 ? `${shown.slice(0, 3).join(", ")} and ${count(shown.length - 3)} more` : shown.join(", ");
}

export const memoryText = (value) => (value > 0 ? `${bytes(value)} more than before` : "no more than before");
