// The task stream: a line for each processor, a bar for each task that was sampled, coloured by function.
import { context, swatch, themed } from "./charts.js";
import { clock, colour, count, element, plural, seconds, taskName } from "./format.js";
import { matches, words } from "./table.js";

const LINES_SHOWN = 300;
const AXIS = 22, NARROW = 600, TICK = 76;
const STEPS = [1e-4, 5e-4, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 600];
const SHORTEST = 0.001, LONGEST = 3600;
const SHARE_SECONDS = 2.5;  // so long after its end, at most, a worker tells of a task
const [TASK, FUNCTION, WORKER, PROCESS, BEGUN, LASTED, STATUS, BLOCKED, LINE] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
const HATCH = 5;
const collator = new Intl.Collator("en", { numeric: true });

// Of all shares: how many tasks are shown, and of how many that ended.
export function totals(shares) {
  return shares.reduce(([sampled, ended], one) => [sampled + one[1], ended + one[2]], [0, 0]);
}

export class Stream {
  constructor(history, openTask) {
    this.openTask = openTask;
    this.history = history;  // {runs, shares, at, isLoading}: of the page
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

  get label() {
    return this.canvas.clientWidth < NARROW ? 76 : 140;
  }

  listen() {
    const on = (id, handler) => document.getElementById(id).addEventListener("click", handler);
    on("stream-in", () => this.zoom(0.5));
    on("stream-out", () => this.zoom(2));
    on("stream-left", () => this.pan(-0.5));
    on("stream-right", () => this.pan(0.5));
    on("stream-last", () => this.last());
    on("stream-task", () => this.openTask(this.chosen[TASK]));
    on("stream-live", () => this.follow(this.until !== null));
    this.search.addEventListener("input", () => this.draw());
    this.box.addEventListener("scroll", () => this.soon());  // only what is in sight is drawn
    this.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;  // plain wheels scroll the lines
      event.preventDefault();
      this.zoom(event.deltaY > 0 ? 1.25 : 0.8, this.share(event));
    }, { passive: false });
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerdown", (event) => {
      this.drag = { x: event.clientX, end: this.end() };
      if (this.find(event) && this.until === null) this.follow(false);  // what is chosen stays in sight
    });
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
    return Math.min(1, Math.max(0, (event.clientX - box.left - this.label) / (box.width - this.label)));
  }

  follow(is) {
    this.until = is ? null : this.history.at;
    this.live.setAttribute("aria-pressed", String(is));
    this.draw();
  }

  // To the end of the task that ended last, which on an idle cluster is out of sight.
  last() {
    const run = this.history.runs.at(-1);
    if (!run) return;
    this.until = run[BEGUN] + run[LASTED] + 0.02 * this.span;
    this.live.setAttribute("aria-pressed", "false");
    this.choose(run);
  }

  // Around the point that is named, else around the chosen bar, else around the end.
  zoom(factor, wanted = null) {
    const before = this.span;
    const share = wanted ?? this.chosenShare() ?? 1;
    this.span = Math.min(LONGEST, Math.max(SHORTEST, this.span * factor));
    if (share < 1 || this.until !== null) {
      this.until = this.end() - (1 - share) * (before - this.span);
      this.live.setAttribute("aria-pressed", "false");
    }
    this.draw();
  }

  chosenShare() {
    if (!this.chosen) return null;
    const share = 1 - (this.end() - this.chosen[BEGUN] - this.chosen[LASTED] / 2) / this.span;
    return share >= 0 && share <= 1 ? share : null;
  }

  pan(share) {
    this.until = Math.min(this.history.at, this.end() + share * this.span);
    this.live.setAttribute("aria-pressed", "false");
    this.draw();
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (event.key === "+" || event.key === "=") this.zoom(0.5);
    else if (event.key === "-") this.zoom(2);
    else if (event.key === "Enter" && this.chosen) this.openTask(this.chosen[TASK]);
    else if (event.key in steps && this.bars.length) this.step(...steps[event.key]);
    else return;
    event.preventDefault();
  }

  // To the nearest bar on the same line, or to the one above or below it on the nearest line that has any.
  step(along, across) {
    const from = this.bars.find((bar) => bar.run === this.chosen) ?? this.bars[0];
    const distance = (bar) =>
      (along ? (bar.x - from.x) * along : Math.abs(bar.y - from.y) * 1e6 + Math.abs(bar.x - from.x));
    const isThere = (bar) => (along ? bar.y === from.y && distance(bar) >= 0 : (bar.y - from.y) * across > 0);
    const there = this.bars.filter((bar) => bar !== from && isThere(bar));
    const found = there.reduce((best, bar) => (!best || distance(bar) < distance(best) ? bar : best), null);
    if (this.until === null) this.follow(false);  // what is chosen stays in sight
    this.choose((found ?? from).run);
  }

  point(event) {
    if (!this.drag || !event.buttons) {
      this.find(event);
      return;
    }
    const moved = (event.clientX - this.drag.x) / (this.canvas.clientWidth - this.label) * this.span;
    this.drag.isMoved ||= Math.abs(event.clientX - this.drag.x) >= 4;
    if (!this.drag.isMoved) return;  // a click that trembles
    this.until = Math.min(this.history.at, this.drag.end - moved);
    this.live.setAttribute("aria-pressed", "false");
    this.soon();
  }

  // The bar that is pointed at is chosen.
  find({ offsetX: x, offsetY: y }) {
    const found = this.bars.findLast((bar) =>
      y >= bar.y && y < bar.y + bar.height && x >= bar.x - 1 && x <= bar.x + bar.width + 1);
    if (found && found.run !== this.chosen) this.choose(found.run);
    return found;
  }

  choose(run) {
    this.chosen = run;
    document.getElementById("stream-task").hidden = false;
    const waited = run[BLOCKED].reduce((sum, one, index) => (index % 2 ? sum + one : sum), 0);
    const own = waited ? ` and waited about ${seconds(waited)} of them for tasks of its own` : "";
    this.detail.textContent = `${run[FUNCTION]}, ${run[STATUS]}, ran ${seconds(run[LASTED])}${own} ` +
      `from ${clock(run[BEGUN])} on processor ${run[PROCESS]} of worker ${run[WORKER]}; task ${taskName(run[TASK])}`;
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
      if (wanted.length
        && !matches(wanted, run[FUNCTION], run[WORKER], run[STATUS], run[TASK], taskName(run[TASK]))) continue;
      const key = run[LINE] ??= `${run[WORKER]}\n${run[PROCESS]}`;
      if (!lines.has(key)) lines.set(key, { worker: run[WORKER], process: run[PROCESS] });
      runs.push([run, key]);
    }
    const sorted = [...lines.keys()].sort(collator.compare);
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
    const label = this.label;
    pen.font = "11px system-ui, sans-serif";
    this.shade(pen, begin, end, width, height);
    this.axis(pen, begin, end, width, height);
    if (each > 9) this.names(pen, sorted.slice(0, shown), lines, each);
    const scale = (width - label) / (end - begin);
    const used = new Map();
    const bad = themed("--bad");
    const top = this.box.scrollTop - each, bottom = this.box.scrollTop + this.box.clientHeight;
    this.bars = [];
    let tiny = 0;
    for (const [run, key] of runs) {
      const { index } = lines.get(key);
      if (index === undefined) continue;
      const x = Math.max(label, label + (run[BEGUN] - begin) * scale);
      const stop = Math.min(width, label + (run[BEGUN] + run[LASTED] - begin) * scale);
      const wide = Math.max(1, stop - x - (stop - x > 3 ? 0.5 : 0));
      const bar = { run, x, y: AXIS + index * each, width: wide, height: each - 1 };
      if (stop - x < 1) tiny += 1;
      const isBad = run[STATUS] !== "success";
      if (bar.y > top && bar.y < bottom) {
        pen.fillStyle = isBad ? bad : colour(run[FUNCTION]);
        pen.fillRect(bar.x, bar.y, bar.width, bar.height);
        for (let i = 0; i < run[BLOCKED].length; i += 2) {
          const from = label + (run[BEGUN] + run[BLOCKED][i] - begin) * scale;
          hatch(pen, bar, Math.max(bar.x, from), Math.min(bar.x + bar.width, from + run[BLOCKED][i + 1] * scale));
        }
        if (isBad && bar.width > 6) mark(pen, bar);
      }
      if (!isBad) used.set(run[FUNCTION], (used.get(run[FUNCTION]) || 0) + 1);
      this.bars.push(bar);
    }
    const chosen = this.bars.find((bar) => bar.run === this.chosen);
    if (chosen) outline(pen, chosen);
    this.say(runs.length, shown, sorted.length, tiny > runs.length / 10, begin, end);
    this.explain(used, runs.some(([run]) => run[STATUS] !== "success"), runs.some(([run]) => run[BLOCKED].length));
  }

  // What is older than the oldest that is kept is not empty but unknown.
  shade(pen, begin, end, width, height) {
    const { runs, shares } = this.history;
    const label = this.label;
    const known = runs.length && totals(shares)[0] > runs.length ? runs[0][BEGUN] : begin;
    if (known <= begin) return;
    pen.fillStyle = themed("--page");
    pen.fillRect(label, AXIS, (Math.min(known, end) - begin) / (end - begin) * (width - label), height);
  }

  names(pen, keys, lines, each) {
    pen.fillStyle = themed("--soft");
    const letters = Math.floor(this.label / 6);
    for (const key of keys) {
      const line = lines.get(key);
      const text = `${line.worker} · ${line.process}`;
      const short = text.length > letters ? `…${text.slice(1 - letters)}` : text;
      pen.fillText(short, 4, AXIS + line.index * each + each - 5, this.label - 8);
    }
  }

  axis(pen, begin, end, width, height) {
    const span = end - begin, wide = width - this.label;
    const step = STEPS.find((one) => span / one <= wide / TICK) ?? 1800;
    pen.strokeStyle = themed("--line");
    pen.fillStyle = themed("--soft");
    for (let at = Math.ceil(begin / step) * step; at < end; at += step) {
      const x = this.label + (at - begin) / span * wide;
      pen.beginPath();
      pen.moveTo(x, AXIS - 6);
      pen.lineTo(x, height);
      pen.stroke();
      const text = step >= 1 ? clock(at) : `−${seconds(end - at)}`;
      if (x + pen.measureText(text).width + 2 < width) pen.fillText(text, x + 2, 11);
    }
  }

  // Honest about sampling: of how many tasks that ended in this time the bars are how many.
  say(bars, shown, processors, isTiny, begin, end) {
    const { runs, shares, isLoading } = this.history;
    const [allSampled, allEnded] = totals(shares);
    const [sampled, ended] = totals(shares.filter(([at]) => at > begin && at <= end + SHARE_SECONDS));
    const share = ended ? sampled / ended : 1;
    const text = isLoading && !runs.length ? "loading…"
      : !allEnded ? "No task has ended since scaler_ui began to watch; long ones show when they end."
        : share > 0.999 ? `Every task that ended in this time: ${plural(bars, "bar")} here.`
          : `A sample: ${count(sampled)} of ${count(ended)} tasks that ended in this time ` +
            `(${(100 * share).toPrecision(2)}%); ${plural(bars, "bar")} here.`;
    const oldest = runs.length && allSampled > runs.length ? clock(runs[0][BEGUN]) : "";
    const kept = oldest ? ` Kept are the last ${count(runs.length)}, since ${oldest}.` : "";
    const cut = processors > shown ? ` ${shown} of ${count(processors)} processors are shown: search for others.` : "";
    const thin = isTiny ? " Bars are a pixel wide at least, and short tasks shorter than they look: zoom in." : "";
    this.note.textContent = text + kept + cut + thin;
    const sight = `${plural(bars, "task")} on ${plural(shown, "processor")} in ${seconds(this.span)}.`;
    this.canvas.setAttribute("aria-label", `${sight} ` +
      "Arrow keys go through them, plus and minus zoom. The task log shows the same as a table.");
  }

  explain(used, isBad, isBlocked) {
    const names = [...used].sort((a, b) => b[1] - a[1]).slice(0, 12).map(([name]) => [name, colour(name)]);
    if (isBad) names.push(["did not succeed", themed("--bad")]);
    if (isBlocked) names.push(["hatched: it waited for tasks of its own", themed("--card")]);
    const key = names.join("\n");
    if (key === this.legendKey) return;
    this.legendKey = key;
    this.legend.replaceChildren(...names.map(([name, paint]) => {
      const item = element("li");
      item.append(swatch(paint), name);
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

// That part of a bar in which its task waited: pale, with strokes where there is room for them.
function hatch(pen, bar, from, to) {
  if (to <= from) return;
  pen.save();
  pen.globalAlpha = 0.6;
  pen.fillStyle = pen.strokeStyle = themed("--card");
  if (to - from < HATCH) pen.fillRect(from, bar.y, to - from, bar.height);
  else {
    pen.beginPath();
    pen.rect(from, bar.y, to - from, bar.height);
    pen.clip();
    pen.lineWidth = 2;
    pen.beginPath();
    for (let x = from - bar.height; x < to; x += HATCH) {
      pen.moveTo(x, bar.y + bar.height);
      pen.lineTo(x + bar.height, bar.y);
    }
    pen.stroke();
  }
  pen.restore();
}

function outline(pen, bar) {
  pen.strokeStyle = themed("--text");
  pen.lineWidth = 2;
  pen.strokeRect(bar.x - 1, bar.y, bar.width + 2, bar.height);
  pen.lineWidth = 1;
}
