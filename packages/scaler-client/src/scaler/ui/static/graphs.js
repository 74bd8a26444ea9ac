// Graphs as they run: tasks in layers, each after all that it depends on, coloured by state. Of large graphs the tasks of
// one function in one layer are one box, which opens.
import { count, element, plural, seconds, taskName } from "./format.js";
import { EDGE, KEY, NAME, NEEDS, STATE, TASK, boxesOf, critical, layersOf, places } from "./layout.js";

const SVG = "http://www.w3.org/2000/svg";
const LARGE = { wide: 120, high: 24, gapX: 50, gapY: 10 }, SMALL = { wide: 16, high: 6, gapX: 90, gapY: 2 };
const GROUPED = { wide: 150, high: 40, gapX: 60, gapY: 10 };
const LABELLED = 120;  // a graph of more tasks is grouped at first, and more boxes than that have no names
const OPENED_MOST = 200;  // tasks of one group that are drawn
const FAILED_WIDE = 6;  // in the bar of a group, where one failure of a thousand would have no pixel
const ZOOMS = [0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1, 1.4, 2];
const WORDS = { ended: "succeeded", skipped: "never ran" };
const ORDER = ["failed", "ended", "skipped", "canceled", "canceling", "dispatched", "queued", "waiting"];
const ENDED = new Set(["ended", "failed", "canceled", "skipped"]);
const [RUN_TASK, RUN_LASTED] = [0, 5];

export class Graphs {
  // `page`: its runs and its status say how long tasks take.
  constructor(place, page, explain, openTask) {
    Object.assign(this, { place, page, explain, openTask });
    this.shown = new Map();  // id -> Picture
    place.replaceChildren(element("p", "loading…", { class: "note" }));
  }

  // Those that run and the last that did, in the order in which they are shown.
  show(graphs) {
    for (const graph of graphs) {
      const known = this.shown.get(graph.id);
      if (known) known.update(graph);
      else this.shown.set(graph.id, new Picture(graph, this.page, this.explain, this.openTask));
    }
    const wanted = graphs.map((graph) => this.shown.get(graph.id));
    this.shown = new Map(wanted.map((one) => [one.graph.id, one]));
    const boxes = wanted.length ? wanted.map((one) => one.box)
      : [element("p", "No graph has run since scaler_ui was started.", { class: "note" })];
    // Only when there is something to move: where one has scrolled to, and the focus, stay.
    if (boxes.length !== this.place.children.length || boxes.some((box, i) => box !== this.place.children[i])) {
      this.place.replaceChildren(...boxes);
    }
  }

  // Tasks that have ended, and for how long each of them ran.
  learn(runs) {
    if (!this.shown.size) return;
    for (const one of this.shown.values()) one.learn(runs);
  }
}

class Picture {
  constructor(graph, page, explain, openTask) {
    this.page = page;
    this.took = new Map();  // seconds by task
    this.chosen = null;  // the key of a box
    this.opened = new Set();
    this.zoom = 1;
    this.isGrouped = graph.nodes.length > LABELLED;
    this.box = element("article");
    this.title = element("h2");
    this.path = element("p", "", { class: "note" });
    this.left = element("p", "", { class: "note" });
    this.frame = element("div", undefined, { class: "graph", tabindex: "0", role: "application" });
    this.detail = element("p", "", { class: "bar" });
    this.words = element("span", "", { role: "status" });
    const button = (text, act) => {
      const made = element("button", text, { type: "button" });
      made.addEventListener("click", act);
      return made;
    };
    this.why = button("Why does it wait?", () => explain(this.taskOf()));
    this.all = button("All about this task", () => openTask(this.taskOf()));
    this.open = button("", () => this.toggle());
    this.failure = button("Next failure", () => this.fail());
    this.group = button("", () => { this.isGrouped = !this.isGrouped; this.opened.clear(); this.build(); });
    this.tools = element("p", undefined, { class: "bar" });
    this.tools.append(this.group, button("Zoom in", () => this.scale(1)), button("Zoom out", () => this.scale(-1)),
      button("Fit", () => this.fit()), this.failure);
    this.detail.append(this.words, this.open, this.why, this.all);
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.box.append(this.title, this.left, this.path, this.tools, this.frame, this.detail);
    this.graph = graph;
    this.learn(page.stream.runs);
    this.build();
  }

  learn(runs) {
    const own = this.tasks ??= new Set(this.graph.nodes.map((node) => node[TASK]));
    for (const run of runs) if (own.has(run[RUN_TASK])) this.took.set(run[RUN_TASK], run[RUN_LASTED]);
  }

  update(graph) {
    const before = this.graph.nodes;
    const isSame = graph.nodes.length === before.length && graph.nodes.every((node, one) => node[TASK] === before[one][TASK]);
    if (!isSame && before.length <= LABELLED && graph.nodes.length > LABELLED) this.isGrouped = true;
    this.graph = graph;
    if (isSame) this.tell();
    else {
      this.tasks = undefined;
      this.learn(this.page.stream.runs);
      this.build();
    }
  }

  // Anew: other boxes than before are to be seen.
  build() {
    const { nodes } = this.graph;
    Object.assign(this, boxesOf(nodes, layersOf(nodes), this.isGrouped, this.opened, OPENED_MOST));
    this.sizes = this.isGrouped ? GROUPED : this.boxes.length > LABELLED ? SMALL : LARGE;
    this.spots = places(this.boxes, this.sizes);
    if (!this.boxes.some((box) => box.key === this.chosen)) this.chosen = null;
    this.draw();
    this.resize();
    this.group.textContent = this.isGrouped ? "Show every task" : "Group by function";
    this.group.hidden = nodes.length <= LABELLED;
    this.tell();
  }

  draw() {
    const { wide, high } = this.sizes;
    this.width = EDGE + wide + Math.max(0, ...this.spots.map((spot) => spot.x));
    this.height = EDGE + high + Math.max(0, ...this.spots.map((spot) => spot.y));
    this.svg = made("svg", {
      "aria-hidden": "true", class: this.sizes === SMALL ? "dense" : "", viewBox: `0 0 ${this.width} ${this.height}`,
    });
    this.edges = [];
    this.boxes.forEach((box, index) => {
      for (const one of box.needs) {
        const from = this.spots[one].x + wide, fromY = this.spots[one].y + high / 2;
        const to = this.spots[index].x, toY = this.spots[index].y + high / 2, half = (from + to) / 2;
        const path = made("path", { d: `M${from} ${fromY}C${half} ${fromY} ${half} ${toY} ${to} ${toY}` });
        this.edges.push([one, index, path]);
        this.svg.append(path);
      }
    });
    this.parts = this.boxes.map((box, index) => this.part(box, index));
    this.svg.append(...this.parts.map((part) => part.group));
    this.frame.replaceChildren(this.svg);
  }

  part(box, index) {
    const { wide, high } = this.sizes;
    const group = made("g", { transform: `translate(${this.spots[index].x} ${this.spots[index].y})` });
    const part = { group };
    group.append(made("rect", { width: wide, height: high, rx: Math.min(4, high / 3) }));
    const title = made("title", {});
    title.textContent = box.isGroup ? `${box.name}, ${plural(box.members.length, "task")}` : this.nameOf(box);
    group.append(title);
    if (this.sizes !== SMALL) {
      const letters = Math.floor(wide / 7);
      const text = made("text", { x: 6, y: 16 });
      text.textContent = cut(box.isGroup ? box.name : calledOf(this.graph.nodes[box.members[0]]), letters);
      group.append(text);
    }
    if (box.isGroup) {
      part.counts = made("text", { x: 6, y: 30 });
      part.shares = ORDER.map((state) => made("rect", { class: `share ${state}`, y: high - 4, height: 4, width: 0 }));
      group.append(part.counts, ...part.shares);
    }
    group.addEventListener("click", () => this.choose(index));
    group.addEventListener("dblclick", () => { this.choose(index); this.toggle(); });
    return part;
  }

  // What has changed since it was drawn: states, the way that takes longest, and the words.
  tell() {
    const { nodes } = this.graph;
    const usual = new Map((this.page.status.work ?? []).map((one) => [one.name, one.mean]));
    const known = nodes.map((node) => this.took.get(node[TASK]) ?? usual.get(node[NAME]));
    this.isTimed = known.every((one) => one !== undefined && one !== null);
    this.way = critical(nodes, this.isTimed ? known : nodes.map(() => 1));
    const onWay = new Set(this.way.path.length > 1 ? this.way.path.map((one) => this.of[one]) : []);
    this.boxes.forEach((box, index) => this.paint(box, this.parts[index], onWay.has(index)));
    for (const [from, to, path] of this.edges) {
      const name = onWay.has(from) && onWay.has(to) ? "way" : "";
      if ((path.getAttribute("class") ?? "") !== name) path.setAttribute("class", name);
    }
    this.head();
    this.say();
  }

  paint(box, part, isOnWay) {
    const { nodes } = this.graph;
    const counts = countsOf(nodes, box.members);
    const state = box.isGroup ? (counts.failed ? "group failed" : "group") : nodes[box.members[0]][STATE];
    const name = `node ${state}${isOnWay ? " way" : ""}${box.key === this.chosen ? " chosen" : ""}`;
    if (part.group.getAttribute("class") !== name) part.group.setAttribute("class", name);
    if (!box.isGroup) return;
    const ended = ORDER.filter((one) => ENDED.has(one)).reduce((sum, one) => sum + (counts[one] ?? 0), 0);
    const failed = counts.failed ? `, ${count(counts.failed)} failed` : "";
    write(part.counts, `${count(ended)} of ${count(box.members.length)}${failed}`);
    let x = 0;
    ORDER.forEach((one, place) => {
      const share = this.sizes.wide * (counts[one] ?? 0) / box.members.length;
      const wide = share && one === "failed" ? Math.max(share, FAILED_WIDE) : Math.min(share, this.sizes.wide - x);
      part.shares[place].setAttribute("x", x);
      part.shares[place].setAttribute("width", wide);
      x += wide;
    });
  }

  head() {
    const { graph, way } = this;
    const { nodes } = graph;
    const tasks = plural(graph.tasks, "task");
    const unfinished = ending(graph, this.isCut)
      || (graph.unfinished ? `${count(graph.unfinished)} of ${tasks} unfinished` : `all ${tasks} succeeded`);
    const runs = graph.runs ? "" : "no longer runs, ";
    const of = graph.user ? `${graph.user}, client ${graph.client}` : `client ${graph.client}`;
    write(this.title, `Graph ${graph.id.slice(0, 8)} of ${of}: ${runs}${unfinished}.`);
    write(this.left, this.isCut ? `${count(nodes.length)} of ${tasks} are drawn, and counted in the boxes. ${leftOut(graph)}` : "");
    this.failure.hidden = !nodes.some((node) => node[STATE] === "failed");
    const total = this.isTimed ? `, ${seconds(way.length)}` : "";
    const names = [...new Set(way.path.map((one) => nodes[one][NAME]))];
    const through = names.length > 6 ? [...names.slice(0, 3), "…", ...names.slice(-2)] : names;
    write(this.path, way.path.length < 2 ? ""
      : `Longest way${this.ofDrawn}: ${plural(way.path.length, "task")}${total}, through ${through.join(" → ")}. ` +
        (this.isCut ? "That of the whole graph may be longer." : "More workers do not make it shorter."));
    this.frame.setAttribute("aria-label",
      `${this.title.textContent} ${this.left.textContent} Arrow keys go through the boxes, F to the next that failed, ` +
      "Enter opens a group, plus and minus zoom.");
  }

  // A scheduler describes a part of a large graph only: what its tasks tell holds for them.
  get isCut() { return this.graph.nodes.length < this.graph.tasks; }
  get ofDrawn() { return this.isCut ? " of the tasks drawn" : ""; }

  nameOf(box) {
    const node = this.graph.nodes[box.members[0]];
    return `${node[KEY] ? `${node[KEY]}, ` : ""}${node[NAME]}, task ${taskName(node[TASK])}`;
  }

  chosenBox() {
    return this.boxes.find((box) => box.key === this.chosen);
  }

  taskOf() {
    return this.graph.nodes[this.chosenBox().members[0]][TASK];
  }

  say() {
    const { nodes } = this.graph;
    const box = this.chosenBox();
    const node = box && !box.isGroup ? nodes[box.members[0]] : null;
    write(this.words, !box ? "Point at a task and click, or use the arrow keys here, to see what it is."
      : node ? `${this.nameOf(box)}, ${node[STATE]}, needs ${plural(node[NEEDS].length, "task")}${this.ofDrawn}${this.timing(box)}`
        : `${box.name}, ${plural(box.members.length, "task")}: ${this.countText(box)}${this.timing(box)}`);
    this.why.hidden = !node || !this.graph.runs || ENDED.has(node[STATE]);
    this.all.hidden = !node;
    this.open.hidden = !box?.group;
    write(this.open, this.opened.has(box?.group) ? "Close its group" : "Open the group");
  }

  timing(box) {
    if (!this.isTimed || this.way.path.length < 2) return "";
    const slack = box.members.reduce((least, one) => Math.min(least, this.way.slack[one]), Infinity);
    return slack > 1e-9 * this.way.length ? `; ${seconds(slack)} of slack${this.ofDrawn}` : `; on the longest way${this.ofDrawn}`;
  }

  countText(box) {
    const counts = countsOf(this.graph.nodes, box.members);
    return ORDER.filter((one) => counts[one]).map((one) => `${count(counts[one])} ${WORDS[one] ?? one}`).join(", ");
  }

  choose(index) {
    this.chosen = this.boxes[index].key;
    this.tell();
    this.parts[index].group.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  // The next box in which something failed, after the one that is chosen.
  fail() {
    const at = this.boxes.findIndex((box) => box.key === this.chosen);
    const failed = [...this.boxes.keys()].filter((one) => countsOf(this.graph.nodes, this.boxes[one].members).failed);
    if (failed.length) this.choose(failed.find((one) => one > at) ?? failed[0]);
  }

  // Opens the group that is chosen, or closes that of the chosen task.
  toggle() {
    const group = this.chosenBox()?.group;
    if (!group) return;
    if (!this.opened.delete(group)) this.opened.add(group);
    this.chosen = this.opened.has(group) ? null : group;
    this.build();
    const index = this.boxes.findIndex((box) => box.group === group);
    if (index >= 0) this.choose(index);
  }

  scale(step) {
    const place = ZOOMS.findLastIndex((one) => one <= this.zoom + 1e-9);
    this.zoom = ZOOMS[Math.min(ZOOMS.length - 1, Math.max(0, place + step))];
    this.resize();
  }

  fit() {
    const [wide, high] = [this.frame.clientWidth, 0.7 * window.innerHeight];
    this.zoom = Math.min(1, Math.max(ZOOMS[0], Math.min(wide / this.width, high / this.height)));
    this.resize();
  }

  resize() {
    this.svg.setAttribute("width", this.width * this.zoom);
    this.svg.setAttribute("height", this.height * this.zoom);
  }

  key(event) {
    const step = { ArrowRight: [1, 0], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowUp: [0, -1] }[event.key];
    if (step && this.boxes.length) this.choose(this.next(...step));
    else if (event.key === "Enter" && this.chosen !== null) this.toggle();
    else if (event.key === "f" && !event.ctrlKey && !event.metaKey) this.fail();
    else if (event.key === "+" || event.key === "=") this.scale(1);
    else if (event.key === "-") this.scale(-1);
    else return;
    event.preventDefault();
  }

  // The nearest box in this direction; at the first key, the first one.
  next(across, down) {
    const at = this.boxes.findIndex((box) => box.key === this.chosen);
    if (at < 0) return 0;
    let best = at, least = Infinity;
    this.spots.forEach((spot, index) => {
      const x = spot.x - this.spots[at].x, y = spot.y - this.spots[at].y;
      const along = across * x + down * y, aside = Math.abs(across ? y : x);
      if (index !== at && along > 0 && along + 3 * aside < least) [best, least] = [index, along + 3 * aside];
    });
    return best;
  }
}

function countsOf(nodes, members) {
  const counts = {};
  for (const one of members) counts[nodes[one][STATE]] = (counts[nodes[one][STATE]] ?? 0) + 1;
  return counts;
}

// Its key, if its program has given it one.
function calledOf(node) {
  return node[KEY] || node[NAME];
}

// Without its middle, as the keys of one collection differ at their ends.
function cut(text, letters) {
  const all = [...text], end = Math.floor((letters - 1) / 2);
  return all.length <= letters ? text : `${all.slice(0, letters - 1 - end).join("")}…${all.slice(-end).join("")}`;
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// How a graph ended in which something failed or was canceled; empty: nothing was.
function ending({ nodes, tasks, unfinished, failed, canceled }, isCut) {
  if (!failed && !canceled) return "";
  const first = nodes.find((node) => node[STATE] === "failed");
  const skipped = nodes.filter((node) => node[STATE] === "skipped").length;
  const wrong = isCut ? [[failed, "failed or never ran"]] : [[failed - skipped, "failed"], [skipped, "never ran"]];
  const counts = counted([...wrong, [canceled, "canceled"], [tasks - unfinished - failed - canceled, "succeeded"],
    [unfinished, "unfinished"]]);
  return `${first ? `failed at ${calledOf(first)}` : failed ? "failed" : "canceled"}: ${counts}`;
}

// What became of the tasks of a graph that are not drawn.
function leftOut({ nodes, tasks, unfinished, failed, canceled }) {
  const drawn = countsOf(nodes, nodes.keys());
  const number = (...states) => states.reduce((sum, one) => sum + (drawn[one] ?? 0), 0);
  const succeeded = tasks - unfinished - failed - canceled;
  return "Of the others: " + counted([
    [failed - number("failed", "skipped"), "failed or never ran"], [canceled - number("canceled"), "canceled"],
    [unfinished - number("waiting", "queued", "dispatched", "canceling"), "unfinished"],
    [succeeded - number("ended"), "succeeded"],
  ]) + ".";
}

function counted(numbers) {
  return numbers.filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`).join(", ");
}

function made(tag, attributes) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}
