// Every table of the page: its columns, and what it says when it is empty.
import { bytes, clock, count, percent, seconds, taskName } from "./format.js";
import { Table } from "./table.js";

const SILENT_SECONDS = 5;
export const isSilent = (worker) => worker.silent > SILENT_SECONDS;
// It gives signs of life, ends nothing, and has tasks that it has not begun.
const STILL_SECONDS = 10;
const begun = (worker) => worker.processors.filter(([, , , , task]) => task).length;
export const isStill = (worker) => !isSilent(worker) && worker.still > STILL_SECONDS && worker.held > begun(worker);
// A user that has so much of a quota is about to be refused.
const NEAR = 0.9;

export const STATES_EXPLAINED = {
  success: "It returned a value.", failed: "Its function raised an exception.",
  canceled: "Its client, or the end of the task that submitted it, canceled it.",
  worker_lost: "Workers were lost with it too often.", processor_died: "Its process died too often while it ran.",
  timed_out: "It was stopped because it ran too long, or took too much memory.",
  refused: "It never ran: its code or arguments could not be read, or a task that it depends on failed.",
};

const at = (id) => document.getElementById(id);
const number = (key, title, show = count) => ({ key, title, show, number: true });
const text = (key, title) => ({ key, title });
const user = (key) => ({ key, title: "User", show: (value) => value || "–" });
const bad = (is) => (is ? "silent" : "");

// chosen() is the worker whose processors are shown, choose(worker) makes it another; openTask(id) shows that task;
// cancelAll(client) asks whether all its tasks are to be canceled; errorOf(run) is why a run failed, if that was told.
export function allTables({ chosen, choose, openTask, cancelAll, errorOf }) {
  return {
    functions: new Table(at("functions"), [text("name", "Function"), number("tasks", "Tasks")], {
      caption: "Unfinished tasks by function", empty: "no unfinished task",
    }),
    clients: new Table(at("clients"), [
      text("id", "Client"), user("user"), number("tasks", "Tasks"),
      number("objects", "Objects"), number("bytes", "Memory", bytes), text("process", "Process"),
      { key: "tasks", title: "Control", kind: "control", show: (tasks) => (tasks ? "Cancel all its tasks" : ""), button: cancelAll }, text("language", "Language"),
    ], { caption: "Clients, with their unfinished tasks", empty: "no client is connected" }),
    users: new Table(at("users"), [
      user("name"), number("tasks", "Tasks"), number("arguments", "Arguments", bytes),
      number("objects", "Objects"), number("bytes", "Memory", bytes),
      number("part", "Nearest quota", (part, { quota }) => (quota ? `${quota} ${percent(part)}` : "–")),
      number("clients", "Clients"), number("workers", "Workers"),
    ], { caption: "Users, with their unfinished tasks, their objects and the memory of these", empty: "this cluster has no keys, so users are not known",
      rowClass: (row) => bad(row.part > NEAR) }),
    messages: new Table(at("messages"), [
      text("kind", "Message"), number("sent", "Sent"), number("received", "Received"),
    ], { caption: "Messages of the scheduler by kind" }),
    workers: new Table(at("worker-table"), [
      { key: "name", title: "Worker", show: workerName, button: choose }, user("user"),
      text("host", "Host"),
      number("agent_cpu", "Agent CPU", percent), number("agent_rss", "Agent memory", bytes),
      number("cpu", "CPU", percent), number("rss", "Memory", bytes), number("free_memory", "Free on host", bytes),
      number("free", "Free"), number("held", "Sent"), number("queued", "Queued"), number("blocked", "Blocked"),
      number("completed", "Completed"), number("lag", "Lag", (value) => (value > 0 ? seconds(value) : "–")),
      text("capabilities", "Capabilities"), text("unit", "Unit"),
    ], {
      caption: "Workers", empty: "no worker is connected", sort: { key: "name", down: false },
      rowClass: (row) => `${bad(isSilent(row) || isStill(row))} ${row.id === chosen() ? "chosen" : ""}`.trim(),
    }),
    processors: new Table(at("processor-table"), [
      text("pid", "Process"), text("state", "State"), number("cpu", "CPU", percent), number("rss", "Memory", bytes),
      { key: "task", title: "Task", show: (value) => value && taskName(value), button: (row) => openTask(row.task) },
      text("function", "Function"), number("running", "Runs for", (value) => (value > 0 ? seconds(value) : "")),
    ], { caption: "Processors of the chosen worker", empty: "" }),
    running: new Table(at("running-table"), [
      number("running", "Runs for", seconds), text("function", "Function"), text("worker", "Worker"), text("state", "State"),
      number("cpu", "CPU", percent), number("rss", "Memory", bytes), text("pid", "Process"),
      { key: "task", title: "Task", show: taskName, button: (row) => openTask(row.task) },
    ], { caption: "Tasks that run now, the longest first", empty: "no worker runs a task", sort: { key: "running", down: true },
      rowClass: (row) => bad(row.isSilent) }),
    managers: new Table(at("manager-table"), [
      text("name", "Manager"), user("user"), text("capabilities", "Capabilities"), number("target", "Wanted"), number("max", "At most"),
      number("per_unit", "Per unit"), number("starting", "Starting"), number("running", "Running"),
      number("stopping", "Stopping"), text("trouble", "Trouble"),
    ], { caption: "Worker managers; units by state", empty: "no worker manager is connected" }),
    objects: new Table(at("object-table"), [
      text("id", "Object"), text("what", "What it is"), number("bytes", "Size", bytes), number("age", "Age", seconds), user("user"),
      text("client", "Owner"), number("owners", "Owners"), text("place", "Where"),
    ], { caption: "The largest objects", empty: "no object has 64 KiB or more" }),
    owners: new Table(at("object-clients"), [
      text("id", "Client"), user("user"), number("objects", "Objects"), number("bytes", "Size", bytes), text("process", "Process"),
    ], { caption: "What clients own", empty: "no client owns an object", sort: { key: "bytes", down: true } }),
    hosts: new Table(at("object-hosts"), [
      { key: "host", title: "Host", show: (host) => host || "(others)" },
      number("putRate", "Stored per second", bytes), number("gotRate", "Read per second", bytes),
      number("put", "Stored in all", bytes), number("got", "Read in all", bytes),
    ], { caption: "Values on the network, by host", empty: "no value has travelled" }),
    waiting: new Table(at("waiting-table"), [
      number("tasks", "Tasks"), { key: "capabilities", title: "Need", show: (value) => value || "any worker" },
      text("why", "Why"), number("able", "Workers that could"), number("priority", "Priority", String),
      number("depth", "Depth"),
    ], { caption: "Classes of queued tasks", empty: "no task is queued", rowClass: (row) => bad(!row.able) }),
    tasks: new Table(at("task-table"), [
      { key: 4, title: "Began", show: clock, number: true }, text(1, "Function"),
      { key: 6, title: "Status", tip: (status) => STATES_EXPLAINED[status] ?? "" },
      { key: "error", title: "Error", value: errorOf }, number(5, "Ran", seconds), text(2, "Worker"), { key: 3, title: "Processor", show: String },
      { key: 0, title: "Task", show: taskName, button: (row) => openTask(row[0]) },
    ], {
      caption: "Tasks that ended, the latest first", empty: "loading…",
      rowClass: (row) => bad(row[6] !== "success"),  // a row is a run, as an event tells it
    }),
  };
}

function workerName(name, worker) {
  if (isSilent(worker)) return `${name} (silent ${seconds(worker.silent)})`;
  return isStill(worker) ? `${name} (ended nothing for ${seconds(worker.still)})` : name;
}
