// The task stream: a line for each processor, a bar for each task that was sampled, coloured by function.
import { context, themed } from "./charts.js";
import { clock, colour, count, element, seconds } from "./format.js";
import { matches, words } from "./table.js";

const LINES_SHOWN = 300;
const LABEL = 132, AXIS = 22;
const SHORTEST = 0.001, LONGEST = 3600;
const [TASK, FUNCTION, WORKER, PROCESS, BEGUN, LASTED, STATUS] = [0, 1, 2, 3, 4, 5, 6];

export class Stream {
  constructor(history) {
    this.history = history;  // {runs, sampled, ended, at}: of the page
    this.span = 30;  // seconds that are shown
    this.until = null;  // null: now, and on with it
    this.chosen = null;
    this.bars = [];
    for (const name of ["canvas", "box", "note", "detail", "legend", "search", "live"]) {
      this[name] = document.getElementById(`stream-${name}`);
    }
    this.listen();
  }

  get isVisible() {
    return !document.getElementById("stream").hidden;
  }

  listen() {
    const on = (id, handler) => document.getElementById(id).addEventListener("click", handler);
    on("stream-in", () => this.zoom(0.5));
    on("stream-out", () => this.zoom(2));
    on("stream-left", () => this.pan(-0.5));
    on("stream-right", () => this.pan(0.5));
    on("stream-live", () => this.follow(this.until !== null));
    this.search.addEventListener("input", () => this.draw());
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;  // plain wheels scroll the lines
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.share(event));
    }, { passive: false });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => { this.drag = { x: event.clientX, end: this.end() }; });
    window.addEventListener("pointerup", () => { this.drag = null; });
    this.canvas.addEventListener("dblclick", (event) => this.zoom(0.33, this.share(event)));
    this.canvas.tabIndex = 0;
    this.canvas.addEventListener("keydown", (event) => this.key(event));
  }

  end() {
    return this.until ?? this.history.at;
  }

  share(event) {
    const box = this.canvas.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left - LABEL) / (box.width - LABEL)));
  }

  follow(is) {
    this.until = is ? null : this.history.at;
    this.live.setAttribute("aria-pressed", String(is));
    this.draw();
  }

  zoom(factor, share = 1) {
    const before = this.span;
    this.span = Math.min(LONGEST, Math.max(SHORTEST, this.span * factor));
    if (share < 1 || this.until !== null) {
      this.until = this.end() - (1 - share) * (before - this.span);
      this.live.setAttribute("aria-pressed", "false");
    }
    this.draw();
  }

  pan(share) {
    this.until = Math.min(this.history.at, this.end() + share * this.span);
    this.live.setAttribute("aria-pressed", "false");
    this.draw();
  }

  key(event) {
    const steps = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };
    if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key in steps && this.bars.length) {
      const at = this.bars.findIndex((bar) => bar.run === this.chosen);
      this.choose(this.bars[Math.min(this.bars.length - 1, Math.max(0, at + steps[event.key]))].run);
    } else return;
    event.preventDefault();
  }

  point(event) {
    if (this.drag && event.buttons) {
      const box = this.canvas.getBoundingClientRect();
      const moved = (event.clientX - this.drag.x) / (box.width - LABEL) * this.span;
      this.until = Math.min(this.history.at, this.drag.end - moved);
      this.live.setAttribute("aria-pressed", "false");
      this.soon();
      return;
    }
    const { offsetX: x, offsetY: y } = event;
    let found = null;
    for (const bar of this.bars) {
      if (y >= bar.y && y < bar.y + bar.height && x >= bar.x - 1 && x <= bar.x + bar.width + 1) found = bar.run;
    }
    if (found && found !== this.chosen) this.choose(found);
  }

  choose(run) {
    this.chosen = run;
    this.detail.textContent = `${run[FUNCTION]}, ${run[STATUS]}, ran ${seconds(run[LASTED])} from ${clock(run[BEGUN])} ` +
      `on processor ${run[PROCESS]} of worker ${run[WORKER]}; task ${run[TASK]}`;
    this.soon();
  }

  soon() {
    if (this.frame) return;
    this.frame = requestAnimationFrame(() => { this.frame = null; this.draw(); });
  }

  visible() {
    const wanted = words(this.search);
    const end = this.end(), begin = end - this.span;
    const lines = new Map();
    const runs = [];
    for (const run of this.history.runs) {
      if (run[BEGUN] > end || run[BEGUN] + run[LASTED] < begin) continue;
      if (wanted.length && !matches(wanted, run[FUNCTION], run[WORKER], run[STATUS], run[TASK])) continue;
      const key = `${run[WORKER]}\n${run[PROCESS]}`;
      if (!lines.has(key)) lines.set(key, { worker: run[WORKER], process: run[PROCESS] });
      runs.push([run, key]);
    }
    const sorted = [...lines.keys()].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    sorted.slice(0, LINES_SHOWN).forEach((key, index) => { lines.get(key).index = index; });
    return { begin, end, runs, lines, sorted };
  }

  draw() {
    if (!this.isVisible) return;
    const { begin, end, runs, lines, sorted } = this.visible();
    const shown = Math.min(LINES_SHOWN, sorted.length);
    const each = shown > 60 ? 7 : shown > 24 ? 12 : 18;
    const height = Math.max(80, AXIS + shown * each + 4);
    this.canvas.style.height = `${height}px`;
    const { pen, width } = context(this.canvas, height);
    pen.font = "11px system-ui, sans-serif";
    this.axis(pen, begin, end, width, height);
    pen.fillStyle = themed("--soft");
    if (each > 9) {
      for (const key of sorted.slice(0, shown)) {
        const line = lines.get(key);
        pen.fillText(`${line.worker} · ${line.process}`.slice(-22), 4, AXIS + line.index * each + each - 5, LABEL - 8);
      }
    }
    const scale = (width - LABEL) / (end - begin);
    const used = new Map();
    const bad = themed("--bad");
    this.bars = [];
    for (const [run, key] of runs) {
      const { index } = lines.get(key);
      if (index === undefined) continue;
      const x = Math.max(LABEL, LABEL + (run[BEGUN] - begin) * scale);
      const stop = Math.min(width, LABEL + (run[BEGUN] + run[LASTED] - begin) * scale);
      const bar = { run, x, y: AXIS + index * each, width: Math.max(1, stop - x - (stop - x > 3 ? 0.5 : 0)), height: each - 1 };
      const isBad = run[STATUS] !== "success";
      pen.fillStyle = isBad ? bad : colour(run[FUNCTION]);
      pen.fillRect(bar.x, bar.y, bar.width, bar.height);
      if (isBad && bar.width > 6) mark(pen, bar);
      if (run === this.chosen) outline(pen, bar);
      used.set(run[FUNCTION], (used.get(run[FUNCTION]) || 0) + 1);
      this.bars.push(bar);
    }
    this.say(runs.length, shown, sorted.length, used);
  }

  axis(pen, begin, end, width, height) {
    const span = end - begin;
    const step = [1e-4, 5e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600].find((one) => span / one <= 8) ?? 1800;
    pen.strokeStyle = themed("--line");
    pen.fillStyle = themed("--soft");
    for (let at = Math.ceil(begin / step) * step; at < end; at += step) {
      const x = LABEL + (at - begin) / span * (width - LABEL);
      pen.beginPath();
      pen.moveTo(x, AXIS - 6);
      pen.lineTo(x, height);
      pen.stroke();
      pen.fillText(step >= 1 ? clock(at) : `−${seconds(end - at)}`, x + 2, 11);
    }
  }

  // Honest about sampling: of how many tasks the bars are how many.
  say(bars, shown, processors, used) {
    const { sampled, ended } = this.history;
    const share = ended ? sampled / ended : 1;
    const text = !ended ? "No task has ended since this page began to watch; long ones show when they end."
      : share > 0.999 ? `Every task that has ended is kept: ${count(bars)} bars here.`
        : `A sample: ${count(sampled)} of ${count(ended)} tasks that ended (${(100 * share).toPrecision(2)}%); ${count(bars)} bars here.`;
    const cut = processors > shown ? ` ${shown} of ${count(processors)} processors are shown: search for others.` : "";
    this.note.textContent = text + cut;
    this.canvas.setAttribute("aria-label", `${count(bars)} tasks on ${count(shown)} processors in ${seconds(this.span)}. ` +
      "Arrow keys go through them, plus and minus zoom. The task log shows the same as a table.");
    const names = [...used].sort((a, b) => b[1] - a[1]).slice(0, 12);
    const key = names.map(([name]) => name).join("\n");
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(...names.map(([name]) => {
      const item = element("li");
      const swatch = element("canvas", undefined, { width: 12, height: 12, "aria-hidden": "true" });
      const pen = swatch.getContext("2d");
      pen.fillStyle = colour(name);
      pen.fillRect(0, 0, 12, 12);
      item.append(swatch, element("span", name));
      return item;
    }));
  }
}

function mark(pen, bar) {
  pen.strokeStyle = themed("--card");
  pen.beginPath();
  pen.moveTo(bar.x + 1, bar.y + 1);
  pen.lineTo(bar.x + Math.min(bar.width, bar.height), bar.y + bar.height - 1);
  pen.stroke();
}

function outline(pen, bar) {
  pen.strokeStyle = themed("--text");
  pen.lineWidth = 2;
  pen.strokeRect(bar.x - 1, bar.y, bar.width + 2, bar.height);
  pen.lineWidth = 1;
}
