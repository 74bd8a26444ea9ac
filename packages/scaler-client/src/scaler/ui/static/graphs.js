// Graphs as they run: tasks in layers, each after all that it depends on, coloured by state.
import { count, element, plural, taskName } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const LARGE = { wide: 120, high: 24, gapX: 50, gapY: 10 }, SMALL = { wide: 16, high: 6, gapX: 90, gapY: 2 };
const LABELLED = 120;  // more nodes than that are drawn small and without their names
const EDGE = 8;
const [TASK, NAME, STATE, NEEDS] = [0, 1, 2, 3];
const ENDED = new Set(["ended", "failed", "canceled", "skipped"]);

export class Graphs {
  constructor(place, explain, openTask) {
    this.place = place;
    this.explain = explain;
    this.openTask = openTask;
    this.shown = new Map();  // id -> Picture
    place.replaceChildren(element("p", "loading…", { class: "note" }));
  }

  // Those that run and the last that did, in the order in which they are shown.
  show(graphs) {
    for (const graph of graphs) {
      const known = this.shown.get(graph.id);
      if (known && known.graph.nodes.length === graph.nodes.length) known.update(graph);
      else this.shown.set(graph.id, new Picture(graph, this.explain, this.openTask, known?.chosen));
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
}

class Picture {
  constructor(graph, explain, openTask, chosen = null) {
    this.box = element("article");
    this.title = element("h2");
    this.frame = element("div", undefined, { class: "graph", tabindex: "0", role: "application" });
    this.detail = element("p", "", { class: "bar" });
    this.words = element("span", "", { role: "status" });
    this.why = element("button", "Why does it wait?", { type: "button" });
    this.why.addEventListener("click", () => explain(this.graph.nodes[this.chosen][TASK]));
    this.all = element("button", "All about this task", { type: "button" });
    this.all.addEventListener("click", () => openTask(this.graph.nodes[this.chosen][TASK]));
    this.detail.append(this.words, this.why, this.all);
    this.frame.addEventListener("keydown", (event) => this.key(event));
    const { svg, groups } = picture(graph, (index) => this.choose(index));
    this.groups = groups;
    this.frame.append(svg);
    this.box.append(this.title, this.frame, this.detail);
    this.chosen = chosen;
    this.update(graph);
  }

  update(graph) {
    this.graph = graph;
    graph.nodes.forEach((node, index) => {
      const name = `node ${node[STATE]}${index === this.chosen ? " chosen" : ""}`;
      if (this.groups[index].getAttribute("class") !== name) this.groups[index].setAttribute("class", name);
    });
    const listed = graph.nodes.length < graph.tasks ? ` The first ${count(graph.nodes.length)} are drawn.` : "";
    const tasks = plural(graph.tasks, "task");
    const unfinished = ending(graph)
      || (graph.unfinished ? `${count(graph.unfinished)} of ${tasks} unfinished` : `all ${tasks} succeeded`);
    const runs = graph.runs ? "" : "no longer runs, ";
    const of = graph.user ? `${graph.user}, client ${graph.client}` : `client ${graph.client}`;
    this.title.textContent = `Graph ${graph.id.slice(0, 8)} of ${of}: ${runs}${unfinished}.${listed}`;
    this.frame.setAttribute("aria-label", `${this.title.textContent} Arrow keys go through the tasks.`);
    this.say();
  }

  say() {
    const node = this.graph.nodes[this.chosen];
    const text = node
      ? `${node[NAME]}, task ${taskName(node[TASK])}, ${node[STATE]}, needs ${plural(node[NEEDS].length, "task")}`
      : "Point at a task and click, or use the arrow keys here, to see what it is.";
    if (this.words.textContent !== text) this.words.textContent = text;
    this.why.hidden = !node || !this.graph.runs || ENDED.has(node[STATE]);
    this.all.hidden = !node;
  }

  choose(index) {
    this.chosen = index;
    this.update(this.graph);
    this.groups[index].scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step || !this.groups.length) return;
    event.preventDefault();
    this.choose(this.chosen === null ? 0 : Math.min(this.groups.length - 1, Math.max(0, this.chosen + step)));
  }
}

// How a graph ended in which something failed or was canceled; empty: nothing was.
function ending({ nodes, tasks, unfinished, failed, canceled }) {
  if (!failed && !canceled) return "";
  const first = nodes.find((node) => node[STATE] === "failed");
  const skipped = nodes.filter((node) => node[STATE] === "skipped").length;
  const counts = [
    [failed - skipped, "failed"], [skipped, "never ran"], [canceled, "canceled"],
    [tasks - unfinished - failed - canceled, "succeeded"], [unfinished, "unfinished"],
  ].filter(([number]) => number > 0).map(([number, word]) => `${count(number)} ${word}`);
  return `${first ? `failed at ${first[NAME]}` : failed ? "failed" : "canceled"}: ${counts.join(", ")}`;
}

function made(tag, attributes) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}

// A layer is one more than the highest of what a task depends on. The fullest stands first; to its right tasks are as
// near as there is room to the middle of what they depend on, to its left to the middle of what depends on them.
function places(nodes, { wide, high, gapX, gapY }) {
  const layers = [], layer = [], spots = [], followers = nodes.map(() => []);
  nodes.forEach((node, index) => {
    layer[index] = node[NEEDS].reduce((most, one) => (one < index ? Math.max(most, layer[one] + 1) : most), 0);
    (layers[layer[index]] ??= []).push(index);
    for (const one of node[NEEDS]) followers[one].push(index);
  });
  const place = (depth, neighbours) => {
    const wish = new Map(layers[depth].map((index) => {
      const near = neighbours(index).filter((one) => spots[one]);
      return [index, near.length ? near.reduce((sum, one) => sum + spots[one].y, 0) / near.length : EDGE];
    }));
    let free = EDGE;
    for (const index of layers[depth].sort((a, b) => wish.get(a) - wish.get(b))) {
      spots[index] = { x: EDGE + depth * (wide + gapX), y: Math.max(free, wish.get(index)) };
      free = spots[index].y + high + gapY;
    }
  };
  const fullest = layers.reduce((best, members, depth) => (members.length > layers[best].length ? depth : best), 0);
  for (let depth = fullest; depth < layers.length; depth++) place(depth, (index) => nodes[index][NEEDS]);
  for (let depth = fullest - 1; depth >= 0; depth--) place(depth, (index) => followers[index]);
  return spots;
}

function picture(graph, choose) {
  const sizes = graph.nodes.length > LABELLED ? SMALL : LARGE;
  const { wide, high } = sizes;
  const spots = places(graph.nodes, sizes);
  const svg = made("svg", {
    "aria-hidden": "true", class: sizes === SMALL ? "dense" : "",
    width: EDGE + wide + Math.max(0, ...spots.map((spot) => spot.x)),
    height: EDGE + high + Math.max(0, ...spots.map((spot) => spot.y)),
  });
  graph.nodes.forEach((node, index) => {
    for (const one of node[NEEDS]) {
      const from = spots[one].x + wide, fromY = spots[one].y + high / 2;
      const to = spots[index].x, toY = spots[index].y + high / 2, half = (from + to) / 2;
      svg.append(made("path", { d: `M${from} ${fromY}C${half} ${fromY} ${half} ${toY} ${to} ${toY}` }));
    }
  });
  const groups = graph.nodes.map((node, index) => {
    const group = made("g", { transform: `translate(${spots[index].x} ${spots[index].y})` });
    group.append(made("rect", { width: wide, height: high, rx: Math.min(4, high / 3) }));
    const title = made("title", {});
    title.textContent = `${node[NAME]}, task ${taskName(node[TASK])}`;
    group.append(title);
    if (sizes === LARGE) {
      const text = made("text", { x: 6, y: 16 });
      text.textContent = node[NAME].length > 17 ? `${node[NAME].slice(0, 16)}…` : node[NAME];
      group.append(text);
    }
    group.addEventListener("click", () => choose(index));
    svg.append(group);
    return group;
  });
  return { svg, groups };
}
