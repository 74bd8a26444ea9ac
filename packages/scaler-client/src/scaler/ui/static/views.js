// The tables and figures, from the last status and what was kept of those before.
import { Chart } from "./charts.js";
import { bytes, clock, count, element, percent, plural, seconds, taskButton, taskName } from "./format.js";
import { totals } from "./stream.js";
import { matches, words } from "./table.js";
import { uses } from "./use.js";
import { allTables, isSilent, isStill } from "./tables.js";

const at = (id) => document.getElementById(id);
const STATES = ["waiting", "queued", "dispatched", "canceling"];
const ENDS = ["success", "failed", "canceled", "worker_lost", "refused"];
const PROCESSOR_STATES = ["starting", "idle", "running", "blocked", "stopping"];
const LAST_RATES = 10, SHORTEST_LEFT = 10;
const LOGS_SHOWN = 500, RUNS_LISTED = 20000;
const [TASK, FUNCTION, WORKER, , , , STATUS] = [0, 1, 2, 3, 4, 5, 6];

export class Views {
  constructor(page, openTask, control, openView) {
    Object.assign(this, { page, openTask, openView });
    this.chosen = null;
    this.forget();
    this.charts = {
      states: new Chart(at("chart-states"), STATES, count, { stacked: true }),
      rate: new Chart(at("chart-rate"), ["ended per second"], count),
      memory: new Chart(at("chart-memory"), ["workers", "storage", "scheduler"], bytes),
      cpu: new Chart(at("chart-cpu"), ["workers", "scheduler"], (value) => value.toFixed(2), { least: 0.1 }),
    };
    const choose = (worker) => { this.chosen = worker.id; this.workers(); };
    this.errorOf = (run) => (run[STATUS] === "success" ? "" : page.errors.get(run[TASK]) ?? "");
    const cancelAll = (client) => control.client(client);
    this.tables = allTables({ chosen: () => this.chosen, choose, openTask, cancelAll, errorOf: this.errorOf });
    at("worker-drain").addEventListener("click", () => control.worker(this.worker));
    this.paused = null;  // what the task log shows while it stands still
    at("task-pause").addEventListener("click", () => this.pause());
    at("chart-minutes").addEventListener("change", () => this.show("overview"));
    for (const [search, view] of [["worker-search", "workers"], ["running-search", "running"], ["task-search", "tasks"], ["log-search", "logs"]]) {
      at(search).addEventListener("input", () => this.show(view));
    }
  }

  // One of the methods below; the stream and the graphs draw themselves.
  show(view) {
    if (!["overview", "workers", "running", "tasks", "waiting", "objects", "logs"].includes(view)) return;
    if (this.page.status.workers || view === "logs") this[view]();
  }

  overview() {
    const { status } = this.page;
    const history = recent(this.page.history, 60 * at("chart-minutes").value);
    const { balancing, scheduler, storage, tasks, workers, sent, received } = status;
    const rate = rates(history);
    facts(at("facts"), [
      ["Workers", count(workers.length) + unwell(workers)],
      ["Unfinished tasks", count(sum(tasks, STATES)) + left(sum(tasks, STATES), rate)],
      ["Ended per second", count(rate.at(-1) ?? 0)], ["Succeeded", count(tasks.success ?? 0)],
      ["Did not succeed", count(sum(tasks, ENDS) - (tasks.success ?? 0)), () => this.openView("errors")],
      ["Scheduler up for", seconds(scheduler.uptime)],
    ]);
    facts(at("states"), [...STATES, ...ENDS].map((name) => [name, count(tasks[name] ?? 0)]));
    facts(at("use"), uses(status.use));
    facts(at("scheduler"), [
      ["Address", scheduler.address], ["Version", `${scheduler.version} (${scheduler.language})`],
      ["Process", `${scheduler.pid} on ${scheduler.host}`],
      ["CPU", percent(scheduler.cpu)], ["Memory", bytes(scheduler.rss)], ["Free on its host", bytes(scheduler.free)],
      ["Tasks moved, of those asked back", `${count(balancing.returned)} of ${count(balancing.recalled)}`],
      ["Refused messages", count(scheduler.rejected)],
      ...(scheduler.standbys.length ? [["Standbys", scheduler.standbys.join(", ")]] : []),
      ...(scheduler.succession ? [["Waits", scheduler.succession]] : []),
    ]);
    facts(at("storage"), [
      ["Address", storage.address], ["Scheduler is connected", storage.connected ? "yes" : "no"],
      ["Objects", count(storage.objects)], ["Owners", count(storage.owners)], ["Memory", bytes(storage.bytes)],
      ...(storage.disk || storage.moving ? [
        ["Disk", bytes(storage.disk)], ["Moving to disk", bytes(storage.moving)], ["Room on the disk", bytes(storage.room)],
      ] : []),
      ...(storage.trouble ? [["Disk trouble", storage.trouble]] : []),
      ["Waiting for objects", count(storage.waiters)],
    ]);
    const times = history.map((one) => one.at);
    const lines = (...keys) => keys.map((key) => history.map((one) => one[key]));
    const breaks = breaksOf(history);
    for (const chart of Object.values(this.charts)) chart.breaks = breaks;
    this.charts.states.update(times, STATES.map((name) => history.map((one) => one.tasks[name] ?? 0)));
    this.charts.rate.update(times, [rate]);
    this.charts.memory.update(times, lines("worker_rss", "storage_bytes", "scheduler_rss"));
    this.charts.cpu.update(times, lines("worker_cpu", "scheduler_cpu"));
    this.tables.functions.show(status.functions.map(([name, held]) => ({ name, tasks: held })));
    this.tables.clients.show(status.clients.map((one) => ({ ...one, process: `${one.pid} on ${one.host}` })));
    this.tables.users.show(status.users);
    const kinds = [...new Set([...Object.keys(received), ...Object.keys(sent)])].sort();
    this.tables.messages.show(kinds.map((kind) => ({ kind, sent: sent[kind] ?? 0, received: received[kind] ?? 0 })));
  }

  workers() {
    const all = this.page.status.workers;
    const wanted = words(at("worker-search"));
    const found = all.filter((one) =>
      matches(wanted, one.name, one.user, one.host, one.capabilities, one.unit, isSilent(one) ? "silent" : "",
        isStill(one) ? "ends nothing" : ""));
    at("worker-count").textContent = (found.length === all.length ? "" : `${count(found.length)} of `) +
      plural(all.length, "worker") + unwell(found);
    this.tables.workers.show(found);
    const chosen = all.find((one) => one.id === this.chosen);
    this.worker = chosen;
    at("worker-drain").hidden = !chosen;
    at("worker-name").textContent = chosen ? `worker ${chosen.name}` : "a worker: choose one above";
    this.tables.processors.show((chosen?.processors ?? []).map(([pid, state, cpu, rss, task, running]) =>
      ({ pid, state: PROCESSOR_STATES[state] ?? String(state), cpu, rss, task, running, function: this.page.status.running?.[task] ?? "" })));
    this.tables.managers.show(this.page.status.managers);
  }

  // Over all workers: what each processor that has a task does, and since when.
  running() {
    const { workers, running } = this.page.status, wanted = words(at("running-search"));
    const all = workers.flatMap((worker) => worker.processors.filter(([, , , , task]) => task).map(
      ([pid, state, cpu, rss, task, lasted]) => ({
        pid, cpu, rss, task, running: lasted, state: PROCESSOR_STATES[state] ?? String(state), worker: worker.name,
        function: running?.[task] ?? "", isSilent: isSilent(worker),
      })));
    const found = all.filter((one) => matches(wanted, one.function, one.worker, one.state, one.task, taskName(one.task)));
    at("running-count").textContent = (found.length === all.length ? "" : `${count(found.length)} of `) + plural(all.length, "task");
    this.tables.running.show(found);
  }

  // The latest first, as they came: only what a person searches for, or sorts by, is looked at row by row.
  tasks() {
    const { runs, shares, isLoading } = this.paused ?? this.page.stream;
    const wanted = words(at("task-search"));
    const looked = Math.min(RUNS_LISTED, runs.length);
    let found = latest(runs, looked);
    if (wanted.length) {
      found = found.slice(0, looked).filter((run) =>
        matches(wanted, run[TASK], taskName(run[TASK]), run[FUNCTION], run[WORKER], run[STATUS], this.errorOf(run)));
    }
    const [sampled, ended] = totals(shares);
    const share = sampled < 0.999 * ended ? `; a sample, ${count(sampled)} of ${count(ended)} that ended` : "";
    at("task-count").textContent = isLoading && !looked ? "loading…"
      : `${count(found.length)} of the last ${plural(looked, "task")}${share}`;
    this.tables.tasks.empty = isLoading ? "loading…" : "no task has ended since scaler_ui began to watch";
    this.tables.tasks.show(found);
  }

  pause() {
    const { runs, shares } = this.page.stream;
    this.paused = this.paused ? null : { runs: runs.slice(-RUNS_LISTED), shares: [...shares], isLoading: false };
    at("task-pause").setAttribute("aria-pressed", String(Boolean(this.paused)));
    this.tasks();
  }

  waiting() {
    const { waiting, workers } = this.page.status;
    const lacking = workers.length ? "no connected worker offers this" : "no worker is connected";
    this.tables.waiting.show(waiting.map((one) => ({ ...one, why: one.able ? "those workers are busy" : lacking })));
  }

  objects() {
    const { status } = this.page, { storage, clients } = status;
    facts(at("object-facts"), [
      ["Objects", count(storage.objects)], ["Owners", count(storage.owners)], ["Memory", bytes(storage.bytes)],
      ["Disk", bytes(storage.disk)], ["Moving to disk", bytes(storage.moving)], ["Waiting for objects", count(storage.waiters)],
    ]);
    const users = new Map(clients.map((one) => [one.id, one.user]));
    this.tables.objects.show(storage.largest.map((one) => ({
      ...one, user: users.get(one.client) ?? "", place: one.disk ? "disk" : "memory",
    })));
    const owners = clients.filter((one) => one.objects);
    this.tables.owners.show(owners.map((one) => ({ ...one, process: `${one.pid} on ${one.host}` })));
    const before = this.page.traffic, length = status.at - (before?.at ?? status.at);
    const rate = (host, key) => {
      const told = before?.hosts.get(host);
      return told && length > 0 ? Math.max(0, (storage.traffic.find((one) => one.host === host)[key] - told[key]) / length) : 0;
    };
    this.tables.hosts.show(storage.traffic.map((one) =>
      ({ ...one, putRate: rate(one.host, "put"), gotRate: rate(one.host, "got") })));
  }

  // Lines are added, not drawn anew: where one has scrolled to, and what is selected, stays.
  logs() {
    const place = at("log-lines"), { logs } = this.page, search = at("log-search").value;
    if (search !== this.searched) {
      Object.assign(this, { searched: search, listed: this.printed - logs.length, shown: 0 });
    }
    const isAtEnd = place.scrollHeight - place.scrollTop - place.clientHeight < 40;
    const wanted = words(at("log-search"));
    const found = logs.slice(logs.length - Math.min(logs.length, this.printed - this.listed))
      .filter((one) => matches(wanted, one.text, one.worker, one.task, taskName(one.task)));
    this.listed = this.printed;
    const empty = this.page.stream.isLoading ? "loading…" : "nothing was printed";
    if (!this.shown) place.replaceChildren(...(found.length ? [] : [empty]));
    this.shown += found.length;
    place.append(...found.map((one) => logLine(one, this.openTask)));
    while (place.children.length > LOGS_SHOWN) place.firstChild.remove();
    if (isAtEnd) place.scrollTop = place.scrollHeight;
  }

  // All that was printed is told anew.
  forget() {
    Object.assign(this, { printed: this.page.logs.length, listed: 0, shown: 0, searched: null });
  }
}

// How many of these workers do not do their part, and in which way.
function unwell(workers) {
  const silent = workers.filter(isSilent).length, still = workers.filter(isStill).length;
  return (silent ? `, ${count(silent)} silent` : "") + (still ? `, ${count(still)} of them ${still === 1 ? "ends" : "end"} nothing` : "");
}

function logLine(one, openTask) {
  const line = element("div", undefined, { class: one.stream });
  const where = element("span", `${clock(one.at)} worker ${one.worker}, task `);
  where.append(taskButton(one.task, openTask), "  ");
  line.append(where, one.text.replace(/\n$/, ""));
  return line;
}

// As an array of the last ones, the newest first, without making it: `slice` copies what is shown.
function latest(runs, length) {
  return { length, slice: (from, to) => runs.slice(runs.length - Math.min(to, length), runs.length - from).reverse() };
}

function recent(history, seconds) {
  const since = (history.at(-1)?.at ?? 0) - seconds;
  return history.filter((one) => one.at >= since);
}

// Where nothing was heard for longer than publications take, or another scheduler begins: no line is drawn across.
function breaksOf(history) {
  const steps = history.slice(1).map((one, i) => one.at - history[i].at).sort((a, b) => a - b);
  const usual = steps.length ? steps[Math.floor(steps.length / 2)] : 1;
  return history.map((one, i) => i > 0
    && (one.server !== history[i - 1].server || one.at - history[i - 1].at > Math.max(3, 3 * usual)));
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

// How long the unfinished tasks take, if as many end per second as in the last ten statuses. Less than ten seconds are not told.
function left(unfinished, rates) {
  const last = rates.slice(-LAST_RATES), rate = last.reduce((all, one) => all + one, 0) / last.length;
  return rate > 0 && unfinished / rate > SHORTEST_LEFT ? `, about ${seconds(unfinished / rate)} left` : "";
}

// A pair may have a third: what a click on its value does.
function facts(place, pairs) {
  if (place.children.length !== pairs.length) {
    place.replaceChildren(...pairs.map(([name, , open]) => {
      const box = element("div"), value = element("dd");
      if (open) {
        value.append(element("button", "", { type: "button", class: "link" }));
        value.firstChild.addEventListener("click", open);
      }
      box.append(element("dt", name), value);
      return box;
    }));
  }
  pairs.forEach(([, value], i) => {
    const cell = place.children[i].lastChild, box = cell.firstElementChild ?? cell;
    if (box.textContent !== value) box.textContent = value;
  });
}
