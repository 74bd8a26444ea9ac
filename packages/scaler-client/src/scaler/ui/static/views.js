// The tables and figures, from the last status and what was kept of those before.
import { draw } from "./charts.js";
import { bytes, clock, count, element, percent, seconds } from "./format.js";
import { Table, matches, words } from "./table.js";

const at = (id) => document.getElementById(id);
const STATES = ["waiting", "queued", "dispatched", "canceling"];
const ENDS = ["success", "failed", "canceled", "worker_lost", "refused"];
const PROCESSOR_STATES = ["starting", "idle", "running", "blocked", "stopping"];
const SILENT_SECONDS = 5;

const number = (key, title, show = count) => ({ key, title, show, number: true });
const text = (key, title) => ({ key, title });

export class Views {
  constructor(page, explain) {
    this.page = page;
    this.chosen = null;
    this.tables = {
      functions: new Table(at("functions"), [text("name", "Function"), number("tasks", "Tasks")],
        { caption: "Unfinished tasks by function", empty: "no unfinished task" }),
      clients: new Table(at("clients"), [text("id", "Client"), text("host", "Host"), text("pid", "Process"), text("language", "Language"), number("tasks", "Unfinished")],
        { caption: "Clients", empty: "no client is connected" }),
      messages: new Table(at("messages"), [text("kind", "Message"), number("sent", "Sent"), number("received", "Received")],
        { caption: "Messages of the scheduler by kind" }),
      workers: new Table(at("worker-table"), workerColumns((row) => { this.chosen = row.id; this.workers(); }),
        { caption: "Workers", empty: "no worker is connected", sort: { key: "cpu", down: true }, rowClass: (row) => this.workerClass(row) }),
      processors: new Table(at("processor-table"), [
        text("pid", "Process"), text("state", "State"), number("cpu", "CPU", percent), number("rss", "Memory", bytes),
        { key: "task", title: "Task", button: (row) => explain(row.task) }, number("running", "Runs since", (value) => (value > 0 ? seconds(value) : "")),
      ], { caption: "Processors of the chosen worker", empty: "" }),
      managers: new Table(at("manager-table"), [
        text("name", "Manager"), text("capabilities", "Capabilities"), number("target", "Wanted"), number("max", "At most"), number("per_unit", "Per unit"),
        number("starting", "Starting"), number("running", "Running"), number("stopping", "Stopping"), text("trouble", "Trouble"),
      ], { caption: "Worker managers; units by state", empty: "no worker manager is connected" }),
      waiting: new Table(at("waiting-table"), [
        number("tasks", "Tasks"), text("capabilities", "Need"), number("priority", "Priority", String), number("depth", "Depth"), number("able", "Workers that could"), text("why", "Why"),
      ], { caption: "Classes of queued tasks", empty: "no task is queued", rowClass: (row) => (row.able ? "" : "silent") }),
      tasks: new Table(at("task-table"), [
        { key: "begun", title: "Began", show: clock, number: true }, text("name", "Function"), text("status", "Status"), number("lasted", "Ran", seconds),
        text("worker", "Worker"), text("process", "Processor"), text("task", "Task"),
      ], { caption: "Tasks that ended, newest first", empty: "no task has ended since this page began to watch", sort: { key: "begun", down: true }, rowClass: (row) => (row.status === "success" ? "" : "silent") }),
    };
    for (const [id, show] of [["worker-search", () => this.workers()], ["task-search", () => this.tasks()], ["log-search", () => this.logs()]]) {
      at(id).addEventListener("input", show);
    }
  }

  show(view) {
    if (!this.page.status.workers && view !== "logs") return;
    ({ overview: () => this.overview(), workers: () => this.workers(), tasks: () => this.tasks(), waiting: () => this.waiting(), logs: () => this.logs() })[view]?.();
  }

  overview() {
    const { status, history } = this.page;
    const rate = rates(history);
    facts(at("facts"), [
      ["Workers", count(status.workers.length)], ["Unfinished tasks", count(sum(status.tasks, STATES))],
      ["Ended per second", count(rate.at(-1) ?? 0)], ["Succeeded", count(status.tasks.success ?? 0)],
      ["Failed", count((status.tasks.failed ?? 0) + (status.tasks.worker_lost ?? 0) + (status.tasks.refused ?? 0))], ["Canceled", count(status.tasks.canceled ?? 0)],
      ["Scheduler CPU", percent(status.scheduler.cpu)], ["Scheduler memory", bytes(status.scheduler.rss)], ["Free on its host", bytes(status.scheduler.free)],
      ["Up for", seconds(status.scheduler.uptime)], ["Version", status.scheduler.version || "?"],
      ["Storage", status.storage.connected ? `${count(status.storage.objects)} objects` : "not connected"], ["Storage memory", bytes(status.storage.bytes)],
      ["Balanced", `${count(status.balancing.returned)} of ${count(status.balancing.recalled)}`], ["Refused messages", count(status.scheduler.rejected)],
    ]);
    const times = history.map((one) => one.at);
    const series = (names, values) => names.map((name, i) => ({ name, values: history.map(values[i]) }));
    draw(at("chart-states"), times, STATES.map((name) => ({ name, values: history.map((one) => one.tasks[name] ?? 0) })), { show: count, stacked: true });
    draw(at("chart-rate"), times, [{ name: "ended per second", values: rate }], { show: count });
    draw(at("chart-memory"), times, series(["workers", "storage", "scheduler"], [(one) => one.worker_rss, (one) => one.storage_bytes, (one) => one.scheduler_rss]), { show: bytes });
    draw(at("chart-cpu"), times, series(["workers", "scheduler"], [(one) => one.worker_cpu, (one) => one.scheduler_cpu]), { show: (value) => value.toFixed(2) });
    this.tables.functions.show(status.functions.map(([name, tasks]) => ({ name, tasks })));
    this.tables.clients.show(status.clients.map(([id, host, pid, language, tasks]) => ({ id, host, pid, language, tasks })));
    const kinds = [...new Set([...Object.keys(status.received), ...Object.keys(status.sent)])].sort();
    this.tables.messages.show(kinds.map((kind) => ({ kind, sent: status.sent[kind] ?? 0, received: status.received[kind] ?? 0 })));
  }

  workerClass(row) {
    return `${row.silent > SILENT_SECONDS ? "silent" : ""} ${row.id === this.chosen ? "chosen" : ""}`.trim();
  }

  workers() {
    const all = this.page.status.workers ?? [];
    const wanted = words(at("worker-search"));
    const found = all.filter((one) => matches(wanted, one.name, one.host, one.capabilities, one.unit));
    at("worker-count").textContent = found.length === all.length ? `${count(all.length)} workers` : `${count(found.length)} of ${count(all.length)} workers`;
    this.tables.workers.show(found);
    const chosen = all.find((one) => one.id === this.chosen);
    at("worker-name").textContent = chosen ? chosen.name : "a worker: choose one above";
    this.tables.processors.show((chosen?.processors ?? []).map(([pid, state, cpu, rss, task, running]) =>
      ({ pid, state: PROCESSOR_STATES[state] ?? String(state), cpu, rss, task, running })));
    this.tables.managers.show(this.page.status.managers ?? []);
  }

  tasks() {
    const wanted = words(at("task-search"));
    const found = [];
    for (let i = this.page.stream.runs.length - 1; i >= 0; i--) {
      const [task, name, worker, process, begun, lasted, status] = this.page.stream.runs[i];
      if (!wanted.length || matches(wanted, task, name, worker, status)) found.push({ task, name, worker, process, begun, lasted, status });
    }
    const { sampled, ended, runs } = this.page.stream;
    at("task-count").textContent = `${count(found.length)} of the last ${count(runs.length)} kept; ${count(sampled)} of ${count(ended)} that ended were sampled`;
    this.tables.tasks.show(found);
  }

  waiting() {
    this.tables.waiting.show(this.page.status.waiting.map((one) => ({
      ...one, why: one.able ? "those workers are busy" : this.page.status.workers.length ? "no connected worker offers this" : "no worker is connected",
    })));
  }

  logs() {
    const wanted = words(at("log-search"));
    const found = this.page.logs.filter((one) => matches(wanted, one.text, one.worker, one.task));
    at("log-lines").replaceChildren(...found.map((one) => {
      const line = element("div", undefined, { class: one.stream });
      line.append(element("span", `${clock(one.at)} ${one.worker} ${one.task.slice(0, 8)}  `), one.text.replace(/\n$/, ""));
      return line;
    }));
    if (!found.length) at("log-lines").textContent = "nothing was printed";
  }
}

function workerColumns(choose) {
  return [
    { key: "name", title: "Worker", show: (value, row) => (row.silent > SILENT_SECONDS ? `${value} (silent ${seconds(row.silent)})` : value), button: choose },
    text("host", "Host"), number("agent_cpu", "Agent CPU", percent), number("agent_rss", "Agent memory", bytes),
    number("cpu", "CPU", percent), number("rss", "Memory", bytes), number("free_memory", "Free on host", bytes),
    number("free", "Free"), number("held", "Sent"), number("queued", "Queued"), number("blocked", "Blocked"), number("completed", "Completed"),
    number("lag", "Lag", (value) => (value > 0 ? seconds(value) : "–")), text("capabilities", "Capabilities"), text("unit", "Unit"),
  ];
}

const sum = (counts, names) => names.reduce((all, name) => all + (counts[name] ?? 0), 0);

// A scheduler that was started again counts from zero: there is no rate between it and the one before.
function rates(history) {
  return history.map((one, i) => {
    const before = history[i - 1];
    if (!before || before.server !== one.server) return 0;
    return Math.max(0, sum(one.tasks, ENDS) - sum(before.tasks, ENDS)) / Math.max(0.001, one.at - before.at);
  });
}

function facts(place, pairs) {
  if (place.children.length !== pairs.length) {
    place.replaceChildren(...pairs.map(([name]) => {
      const box = element("div");
      box.append(element("dt", name), element("dd"));
      return box;
    }));
  }
  pairs.forEach(([, value], i) => {
    const box = place.children[i].lastChild;
    if (box.textContent !== value) box.textContent = value;
  });
}
