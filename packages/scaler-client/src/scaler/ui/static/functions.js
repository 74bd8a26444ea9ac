// What each function has cost: how far its tasks are, and how long their runs took.
import { count, element, percent, plural, seconds } from "./format.js";
import { Table, matches, words } from "./table.js";

const RATE_SECONDS = 10;
const SHORTEST = 0.0001;  // the bound of the first bucket
// Where tasks are, in the order of the bar; the classes are those of the states of graphs.
const PARTS = [["success", "ended"], ["failed", "failed"], ["canceled", "canceled"], ["dispatched", "dispatched"], ["queued", "waiting"]];
const at = (id) => document.getElementById(id);
const number = (key, title, show = count) => ({ key, title, show, number: true });
const time = (key, title) => number(key, title, (value) => (value < 0 ? "–" : seconds(value)));

export class Functions {
  constructor(page) {
    this.page = page;
    this.chosen = null;  // the name of a function
    this.past = [];  // {at, server, ended by name}: as far back as the rate looks
    const choose = (row) => { this.chosen = row.name; this.show(); };
    this.table = new Table(at("work-table"), [
      { key: "name", title: "Function", button: choose }, { key: "done", title: "Progress", draw: bar },
      number("rate", "Per second", (value) => (value < 10 ? value.toFixed(1) : count(value))),
      number("left", "Left", (value) => (value > 0 ? `about ${seconds(value)}` : "–")),
      time("mean", "Mean"), time("p50", "p50"), time("p99", "p99"),
      number("share", "CPU", percent), time("waited", "Mean wait"),
      number("queued", "Queued"), number("dispatched", "With workers"), number("failed", "Failed"),
      number("submitted", "Submitted"), number("success", "Succeeded"), number("canceled", "Canceled"),
    ], {
      caption: "Tasks by function, since the scheduler's start", empty: "no task was submitted yet",
      rowClass: (row) => (row.name === this.chosen ? "chosen" : ""),
    });
    at("work-search").addEventListener("input", () => this.show());
  }

  // A status came.
  take(status) {
    const ended = new Map((status.work ?? []).map((one) => [one.name, one.success + one.failed + one.canceled]));
    if (this.past.length && this.past[0].server !== status.server) this.past = [];
    this.past.push({ at: status.at, server: status.server, ended });
    while (this.past.length > 2 && this.past[1].at <= status.at - RATE_SECONDS) this.past.shift();
  }

  show() {
    const work = this.page.status.work ?? [];
    const wanted = words(at("work-search"));
    const cpu = work.reduce((sum, one) => sum + one.cpu, 0) || 1;
    const rows = work.filter((one) => matches(wanted, one.name)).map((one) => ({
      ...one, left: this.left(one), mean: one.mean ?? -1, p50: one.p50 ?? -1, p99: one.p99 ?? -1, share: one.cpu / cpu, rate: this.rate(one),
      done: (one.success + one.failed + one.canceled) / Math.max(1, one.submitted),
    }));
    this.table.show(rows);
    at("work-count").textContent = work.length ? plural(rows.length, "function") : "";
    this.runs(work.find((one) => one.name === this.chosen));
  }

  rate(one) {
    const [first] = this.past, last = this.past.at(-1);
    if (!last || last.at <= first.at) return 0;
    return Math.max(0, ((last.ended.get(one.name) ?? 0) - (first.ended.get(one.name) ?? 0)) / (last.at - first.at));
  }

  // Seconds until its tasks have ended, if they go on at this rate; 0: not known.
  left(one) {
    const rate = this.rate(one);
    return rate > 0 ? (one.queued + one.dispatched) / rate : 0;
  }

  runs(one) {
    at("work-chosen").textContent = one ? `How long runs of ${one.name} took` : "How long runs took: choose a function above";
    const all = new Map(one?.runs ?? []);
    const buckets = [...all.keys()];
    const lines = [];
    const most = Math.max(1, ...all.values());
    for (let bucket = Math.min(...buckets); bucket <= Math.max(...buckets); bucket++) {
      const runs = all.get(bucket) ?? 0;
      const line = element("li");
      const drawn = element("span", undefined, { class: "length" });
      drawn.style.width = `${Math.max(runs ? 0.3 : 0, 60 * runs / most)}%`;
      line.append(element("span", upTo(bucket), { class: "limit" }), drawn, element("span", count(runs)));
      lines.push(line);
    }
    at("work-runs").replaceChildren(...lines);
  }
}

const limit = (bucket) => SHORTEST * (bucket % 2 ? 1.5 : 1) * 2 ** Math.floor(bucket / 2);
const upTo = (bucket) => (bucket < 60 ? `at most ${seconds(limit(bucket))}` : "longer");

// The cell of a row: its element is made once, and only the widths change.
function bar(cell, row) {
  let box = cell.firstChild;
  if (!box) {
    box = element("div", undefined, { class: "progress", role: "img" });
    for (const [, name] of PARTS) box.append(element("span", undefined, { class: name }));
    cell.append(box);
  }
  const total = Math.max(1, row.submitted);
  const told = PARTS.filter(([key]) => row[key]).map(([key]) => `${count(row[key])} ${WORDS[key]}`).join(", ");
  const text = `${percent(row.done)} of ${plural(row.submitted, "task")}: ${told || "none"}`;
  if (box.title === text) return;
  box.title = text;
  box.setAttribute("aria-label", text);
  PARTS.forEach(([key], index) => { box.children[index].style.width = `${100 * row[key] / total}%`; });
}
const WORDS = { success: "succeeded", failed: "failed", canceled: "canceled", dispatched: "with workers", queued: "queued" };
