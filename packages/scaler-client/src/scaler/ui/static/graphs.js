// Graphs as they run: tasks in layers, each after all that it depends on, coloured by state.
import { count, element } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
const WIDE = 120, HIGH = 24, GAP_X = 50, GAP_Y = 10;
const LABELLED = 400;  // more nodes than that are drawn small and without their names
const FINISHED_KEPT = 4;

export class Graphs {
  constructor(place) {
    this.place = place;
    this.known = new Map();  // id -> {graph, box, nodes}
  }

  show(graphs) {
    const running = new Set(graphs.map((graph) => graph.id));
    for (const graph of graphs) this.update(graph);
    const ended = [...this.known.values()].filter((one) => !running.has(one.graph.id));
    for (const one of ended.slice(0, Math.max(0, ended.length - FINISHED_KEPT))) {
      one.box.remove();
      this.known.delete(one.graph.id);
    }
    for (const one of ended) this.finish(one);
    if (!this.known.size) this.place.replaceChildren(element("p", "No graph has run since this page was opened.", { class: "note" }));
  }

  update(graph) {
    let one = this.known.get(graph.id);
    if (!one || one.graph.nodes.length !== graph.nodes.length) one = this.create(graph, one);
    one.graph = graph;
    for (const [task, , state] of graph.nodes) one.nodes.get(task)?.setAttribute("class", `node ${state}`);
    const listed = graph.nodes.length < graph.tasks ? ` The first ${count(graph.nodes.length)} are drawn.` : "";
    one.title.textContent = `Graph ${graph.id.slice(0, 8)} of client ${graph.client}: ` +
      `${count(graph.unfinished)} of ${count(graph.tasks)} tasks unfinished.${listed}`;
  }

  finish(one) {
    if (one.isFinished) return;
    one.isFinished = true;
    for (const node of one.nodes.values()) node.setAttribute("class", "node ended");
    one.title.textContent = `Graph ${one.graph.id.slice(0, 8)} of client ${one.graph.client}: it has ended.`;
  }

  create(graph, before) {
    const box = before ? before.box : element("div");
    const title = element("h2");
    const frame = element("div", undefined, { class: "graph", tabindex: "0", role: "img" });
    frame.setAttribute("aria-label", `${count(graph.tasks)} tasks in ${graph.id.slice(0, 8)}`);
    const { svg, nodes } = picture(graph);
    frame.append(svg);
    box.replaceChildren(title, frame);
    if (!before) {
      if (!this.known.size) this.place.replaceChildren();
      this.place.prepend(box);
    }
    const one = { graph, box, nodes, title };
    this.known.set(graph.id, one);
    return one;
  }
}

function made(tag, attributes) {
  const one = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) one.setAttribute(name, value);
  return one;
}

// A layer is one more than the highest of what a task depends on; within it, tasks stand near what they depend on.
function picture(graph) {
  const isSmall = graph.nodes.length > LABELLED;
  const [wide, high, gapX, gapY] = isSmall ? [10, 6, 24, 2] : [WIDE, HIGH, GAP_X, GAP_Y];
  const layers = [];
  const layer = [];
  graph.nodes.forEach(([, , , needs], index) => {
    layer[index] = needs.reduce((most, one) => (one < index ? Math.max(most, layer[one] + 1) : most), 0);
    (layers[layer[index]] ??= []).push(index);
  });
  const x = [], y = [];
  layers.forEach((members, depth) => {
    const wish = new Map(members.map((index) => {
      const needs = graph.nodes[index][3].filter((one) => y[one] !== undefined);
      return [index, needs.length ? needs.reduce((sum, one) => sum + y[one], 0) / needs.length : index * 0.001];
    }));
    members.sort((a, b) => wish.get(a) - wish.get(b));
    members.forEach((index, place) => { x[index] = 8 + depth * (wide + gapX); y[index] = 8 + place * (high + gapY); });
  });
  const most = Math.max(1, ...layers.map((members) => members.length));
  const svg = made("svg", { width: 16 + layers.length * (wide + gapX), height: 16 + most * (high + gapY) });
  graph.nodes.forEach(([, , , needs], index) => {
    for (const one of needs) {
      const from = x[one] + wide, fromY = y[one] + high / 2, to = x[index], toY = y[index] + high / 2, half = (from + to) / 2;
      svg.append(made("path", { d: `M${from} ${fromY}C${half} ${fromY} ${half} ${toY} ${to} ${toY}` }));
    }
  });
  const nodes = new Map();
  graph.nodes.forEach(([task, name, state], index) => {
    const group = made("g", { class: `node ${state}`, transform: `translate(${x[index]} ${y[index]})` });
    group.append(made("rect", { width: wide, height: high, rx: 4 }));
    const title = made("title", {});
    title.textContent = `${name}, task ${task}`;
    group.append(title);
    if (!isSmall) {
      const text = made("text", { x: 6, y: 16 });
      text.textContent = name.length > 17 ? `${name.slice(0, 16)}…` : name;
      group.append(text);
    }
    svg.append(group);
    nodes.set(task, group);
  });
  return { svg, nodes };
}
