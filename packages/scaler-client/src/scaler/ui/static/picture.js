// The picture of one graph: which boxes are drawn, which is chosen, and the words about both.
import { Boxes } from "./boxes.js";
import { Canvas } from "./canvas.js";
import { count, element, plural, seconds, taskName } from "./format.js";
import { ENDED, ORDER, WORDS, countsOf, ending, leftOut, through, write } from "./graphwords.js";
import { EDGE, KEY, NAME, NEEDS, STATE, TASK, boxesOf, critical, layersOf, places } from "./layout.js";

const LARGE = { wide: 120, high: 24, gapX: 50, gapY: 10 }, SMALL = { wide: 16, high: 6, gapX: 90, gapY: 2, isDense: true };
const DENSE = { wide: 60, high: 6, gapX: 90, gapY: 2, isDense: true };  // on a canvas
const GROUPED = { wide: 150, high: 40, gapX: 60, gapY: 10 };
const LABELLED = 120;  // a graph of more tasks is grouped at first, and more boxes than that have no names
const DRAWN_MOST = 1000;  // more boxes are drawn on a canvas
const OPENED_MOST = 200;  // tasks of one group that are drawn
const ZOOMS = [0.1, 0.15, 0.25, 0.35, 0.5, 0.7, 1, 1.4, 2];
const [RUN_TASK, RUN_LASTED] = [0, 5];

export class Picture {
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
    this.frame.addEventListener("scroll", () => this.painter.soon());
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
    if (graph.version && graph.version === this.graph.version && graph.runs === this.graph.runs) return;
    const before = this.graph.nodes;
    const isSame = graph.nodes === before
      || (graph.nodes.length === before.length && graph.nodes.every((node, one) => node[TASK] === before[one][TASK]));
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
    const isLarge = this.boxes.length > DRAWN_MOST;
    this.sizes = isLarge ? DENSE : this.isGrouped ? GROUPED : this.boxes.length > LABELLED ? SMALL : LARGE;
    this.spots = places(this.boxes, this.sizes);
    this.width = EDGE + this.sizes.wide + this.spots.reduce((most, spot) => Math.max(most, spot.x), 0);
    this.height = EDGE + this.sizes.high + this.spots.reduce((most, spot) => Math.max(most, spot.y), 0);
    if (!this.boxes.some((box) => box.key === this.chosen)) this.chosen = null;
    this.painter = isLarge ? new Canvas(this) : new Boxes(this);
    this.frame.replaceChildren(this.painter.element);
    this.painter.resize(this.zoom);
    this.group.textContent = this.isGrouped ? "Show every task" : "Group by function";
    this.group.hidden = nodes.length <= LABELLED;
    this.tell();
  }

  // What has changed since it was drawn: states, the way that takes longest, and the words.
  tell() {
    const { nodes } = this.graph;
    const usual = new Map((this.page.status.work ?? []).map((one) => [one.name, one.mean]));
    const known = nodes.map((node) => this.took.get(node[TASK]) ?? usual.get(node[NAME]));
    this.isTimed = known.every((one) => one !== undefined && one !== null);
    this.way = critical(nodes, this.isTimed ? known : nodes.map(() => 1));
    this.onWay = new Set(this.way.path.length > 1 ? this.way.path.map((one) => this.of[one]) : []);
    this.painter.paint();
    this.head();
    this.say();
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
    write(this.path, way.path.length < 2 ? ""
      : `Longest way${this.ofDrawn}: ${plural(way.path.length, "task")}${total}, through ${through(nodes, way.path)}. ` +
        (this.isCut ? "That of the whole graph may be longer." : "More workers do not make it shorter."));
    this.frame.setAttribute("aria-label",
      `${this.title.textContent} ${this.left.textContent} Arrow keys go through the boxes, F to the next that failed, ` +
      "Enter opens a group, plus and minus zoom.");
  }

  // A scheduler describes a part of a large graph only: what its tasks tell holds for them.
  get isCut() { return this.graph.nodes.length < this.graph.tasks; }
  get ofDrawn() { return this.isCut ? " of the tasks drawn" : ""; }

  nameOf(box) {
    if (box.isGroup) return `${box.name}, ${plural(box.members.length, "task")}`;
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
        : `${this.nameOf(box)}: ${this.countText(box)}${this.timing(box)}`);
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
    this.painter.paint();
    this.say();
    this.painter.reveal(index);
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
    this.painter.resize(this.zoom);
  }

  fit() {
    const [wide, high] = [this.frame.clientWidth, 0.7 * window.innerHeight];
    this.zoom = Math.min(1, Math.max(ZOOMS[0], Math.min(wide / this.width, high / this.height)));
    this.painter.resize(this.zoom);
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
