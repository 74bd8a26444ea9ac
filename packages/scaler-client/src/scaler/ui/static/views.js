// The tables and figures, from the last status and what was kept of those before.
import { Chart } from "./charts.js";
import { bytes, clock, count, element, percent, plural, seconds, taskName } from "./format.js";
import { Table, matches, words } from "./table.js";

const at = (id) => document.getElementById(id);
const STATES = ["waiting", "queued", "dispatched", "canceling"];
const ENDS = ["success", "failed", "canceled", "worker_lost", "refused"];
const PROCESSOR_STATES = ["starting", "idle", "running", "blocked", "stopping"];
const SILENT_SECONDS = 5, LOGS_SHOWN = 500, RUNS_LISTED = 20000;

const isSilent = (worker) => worker.silent > SILENT_SECONDS;

const number = (key, title, show = count) => ({ key, title, show, number: true });
const text = (key, title) => ({ key, title });

export class Views {
  constructor(page, explain) {
    this.page = page;
    this.chosen = null;
    this.forget();
    this.charts = {
      states: new Chart(at("chart-states"), STATES, count, { stacked: true }),
      rate: new Chart(at("chart-rate"), ["ended per second"], count),
      memory: new Chart(at("chart-memory"), ["workers", "storage", "scheduler"], bytes),
      cpu: new Chart(at("chart-cpu"), ["workers", "scheduler"], (value) => value.toFixed(2)),
    };
    this.tables = {
      functions: new Table(at("functions"), [text("name", "Function"), number("tasks", "Tasks")],
        { caption: "Unfinished tasks by function", empty: "no unfinished task" }),
      clients: new Table(at("clients"), [text("id", "Client"), text("process", "Process"), text("language", "Language"), number("tasks", "Tasks")],
        { caption: "Clients, with their unfinished tasks", empty: "no client is connected" }),
      messages: new Table(at("messages"), [text("kind", "Message"), number("sent", "Sent"), number("received", "Received")],
        { caption: "Messages of the scheduler by kind" }),
      workers: new Table(at("worker-table"), workerColumns((row) => { this.chosen = row.id; this.workers(); }),
        { caption: "Workers", empty: "no worker is connected", sort: { key: "name", down: false }, rowClass: (row) => this.workerClass(row) }),
      processors: new Table(at("processor-table"), [
        text("pid", "Process"), text("state", "State"), number("cpu", "CPU", percent), number("rss", "Memory", bytes),
        { key: "task", title: "Task", show: (value) => value && taskName(value), button: (row) => explain(row.task) }, number("running", "Runs for", (value) => (value > 0 ? seconds(value) : "")),
      ], { caption: "Processors of the chosen worker", empty: "" }),
      managers: new Table(at("manager-table"), [
        text("name", "Manager"), text("capabilities", "Capabilities"), number("target", "Wanted"), number("max", "At most"), number("per_unit", "Per unit"),
        number("starting", "Starting"), number("running", "Running"), number("stopping", "Stopping"), text("trouble", "Trouble"),
      ], { caption: "Worker managers; units by state", empty: "no worker manager is connected" }),
      waiting: new Table(at("waiting-table"), [
        number("tasks", "Tasks"), { key: "capabilities", title: "Need", show: (value) => value || "any worker" }, text("why", "Why"),
        number("able", "Workers that could"), number("priority", "Priority", String), number("depth", "Depth"),
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
    const { scheduler, storage, tasks, workers } = status;
    const rate = rates(history);
    const silent = workers.filter(isSilent).length;
    facts(at("facts"), [
      ["Workers", count(workers.length) + (silent ? `, ${count(silent)} silent` : "")], ["Unfinished tasks", count(sum(tasks, STATES))],
      ["Ended per second", count(rate.at(-1) ?? 0)], ["Succeeded", count(tasks.success ?? 0)],
      ["Did not succeed", count(sum(tasks, ENDS) - (tasks.success ?? 0))], ["Scheduler up for", seconds(scheduler.uptime)],
    ]);
    facts(at("states"), [...STATES, ...ENDS].map((name) => [name, count(tasks[name] ?? 0)]));
    facts(at("scheduler"), [
      ["Address", scheduler.address], ["Version", `${scheduler.version} (${scheduler.language})`], ["Process", `${scheduler.pid} on ${scheduler.host}`],
      ["CPU", percent(scheduler.cpu)], ["Memory", bytes(scheduler.rss)], ["Free on its host", bytes(scheduler.free)],
      ["Tasks moved, of those asked back", `${count(status.balancing.returned)} of ${count(status.balancing.recalled)}`], ["Refused messages", count(scheduler.rejected)],
    ]);
    facts(at("storage"), [
      ["Address", storage.address], ["Scheduler is connected", storage.connected ? "yes" : "no"], ["Objects", count(storage.objects)],
      ["Owners", count(storage.owners)], ["Memory", bytes(storage.bytes)], ["Waiting for objects", count(storage.waiters)],
    ]);
    const times = history.map((one) => one.at);
    const lines = (...keys) => keys.map((key) => history.map((one) => one[key]));
    this.charts.states.update(times, STATES.map((name) => history.map((one) => one.tasks[name] ?? 0)));
    this.charts.rate.update(times, [rate]);
    this.charts.memory.update(times, lines("worker_rss", "storage_bytes", "scheduler_rss"));
    this.charts.cpu.update(times, lines("worker_cpu", "scheduler_cpu"));
    this.tables.functions.show(status.functions.map(([name, tasks]) => ({ name, tasks })));
    this.tables.clients.show(status.clients.map(([id, host, pid, language, number]) => ({ id, process: `${pid} on ${host}`, language, tasks: number })));
    const kinds = [...new Set([...Object.keys(status.received), ...Object.keys(status.sent)])].sort();
    this.tables.messages.show(kinds.map((kind) => ({ kind, sent: status.sent[kind] ?? 0, received: status.received[kind] ?? 0 })));
  }

  workerClass(row) {
    return `${isSilent(row) ? "silent" : ""} ${row.id === this.chosen ? "chosen" : ""}`.trim();
  }

  workers() {
    const all = this.page.status.workers ?? [];
    const wanted = words(at("worker-search"));
    const found = all.filter((one) => matches(wanted, one.name, one.host, one.capabilities, one.unit, isSilent(one) ? "silent" : ""));
    const silent = found.filter(isSilent).length;
    at("worker-count").textContent = (found.length === all.length ? "" : `${count(found.length)} of `) + plural(all.length, "worker") +
      (silent ? `, ${count(silent)} silent` : "");
    this.tables.workers.show(found);
    const chosen = all.find((one) => one.id === this.chosen);
    at("worker-name").textContent = chosen ? `worker ${chosen.name}` : "a worker: choose one above";
    this.tables.processors.show((chosen?.processors ?? []).map(([pid, state, cpu, rss, task, running]) =>
      ({ pid, state: PROCESSOR_STATES[state] ?? String(state), cpu, rss, task, running })));
    this.tables.managers.show(this.page.status.managers ?? []);
  }

  tasks() {
    const wanted = words(at("task-search"));
    const found = [];
    const { sampled, ended, runs } = this.page.stream;
    const looked = Math.min(RUNS_LISTED, runs.length);
    for (let i = runs.length - 1; i >= runs.length - looked; i--) {
      const [task, name, worker, process, begun, lasted, status] = runs[i];
      if (!wanted.length || matches(wanted, task, name, worker, status)) found.push({ task, name, worker, process, begun, lasted, status });
    }
    const share = sampled < 0.999 * ended ? `; a sample, ${count(sampled)} of ${count(ended)} that ended` : "";
    at("task-count").textContent = `${count(found.length)} of the last ${plural(looked, "task")}${share}`;
    this.tables.tasks.show(found);
  }

  waiting() {
    this.tables.waiting.show(this.page.status.waiting.map((one) => ({
      ...one, why: one.able ? "those workers are busy" : this.page.status.workers.length ? "no connected worker offers this" : "no worker is connected",
    })));
  }

  // Lines are added, not drawn anew: where one has scrolled to, and what is selected, stays.
  logs() {
    const place = at("log-lines"), { logs } = this.page, search = at("log-search").value;
    if (search !== this.searched) Object.assign(this, { searched: search, listed: this.printed - logs.length, shown: 0 });
    const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const wanted = words(at("log-search"));
    const found = logs.slice(logs.length - Math.min(logs.length, this.printed - this.listed))
      .filter((one) => matches(wanted, one.text, one.worker, one.task, taskName(one.task)));
    this.listed = this.printed;
    if (!this.shown) place.replaceChildren(...(found.length ? [] : ["nothing was printed"]));
    this.shown += found.length;
    place.append(...found.map(logLine));
    while (place.children.length > LOGS_SHOWN) place.firstChild.remove();
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  }

  // All that was printed is told anew.
  forget() {
    Object.assign(this, { printed: this.page.logs.length, listed: 0, shown: 0, searched: null });
  }
}

function logLine(one) {
  const line = element("div", undefined, { class: one.stream });
  line.append(element("span", `${clock(one.at)} worker ${one.worker}, task ${taskName(one.task)}  `), one.text.replace(/\n$/, ""));
  return line;
}

function workerColumns(choose) {
  return [
    { key: "name", title: "Worker", show: (value, row) => (isSilent(row) ? `${value} (silent ${seconds(row.silent)})` : value), button: choose },
    text("host", "Host"), number("agent_cpu", "Agent CPU", percent), number("agent_rss", "Agent memory", bytes),
    number("cpu", "CPU", percent), number("rss", "Memory", bytes), number("free_memory", "Free on host", bytes),
    number("free", "Free"), number("held", "Sent"), number("queued", "Queued"), number("blocked", "Blocked"), number("completed", "Completed"),
    number("lag", "Lag", (value) => (value > 0 ? seconds(value) : "–")), text("capabilities", "Capabilities"), text("unit", "Unit"),
  ];
}

const sum = (counts, names) => names.reduce((all, name) => all + (counts[name] ?? 0), 0);

// A scheduler that was started again counts from zero: there is no rate between it and the one before.
function rates(history) {
  const found = history.map((one, i) => {
    const before = history[i - 1];
    if (!before || before.server !== one.server) return 0;
    return Math.max(0, sum(one.tasks, ENDS) - sum(before.tasks, ENDS)) / Math.max(0.001, one.at - before.at);
  });
  return [found[1] ?? 0, ...found.slice(1)];
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
