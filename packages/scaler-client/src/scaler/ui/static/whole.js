// Graphs of which an event tells a part only, whole: what their tasks are is fetched once, and then, while the view is
// seen, their states about once a second, one request at a time, until the graph has ended and each task with it.
import { STATE } from "./layout.js";

const WHOLE_LIMIT = 20000;  // tasks; a graph of more is shown in part, as the event tells it
const AGAIN = 1000, LATER = 10000;  // milliseconds
const STATES = ["waiting", "queued", "dispatched", "canceling", "ended", "failed", "skipped", "canceled"];
const UNFINISHED = 4;  // so many of them

export class Wholes {
  // `isSeen`: whether the graphs are; `changed`: calls back when there is something new.
  constructor(isSeen, changed) {
    Object.assign(this, { isSeen, changed, told: [], isAsking: false });
    this.kept = new Map();  // by id: {nodes, order, counts, isFinal, version, dueAt}
  }

  // What an event tells.
  take(graphs) {
    this.told = graphs;
    for (const id of [...this.kept.keys()]) if (!graphs.some((graph) => graph.id === id)) this.kept.delete(id);
  }

  // Those graphs, the ones that are kept whole in their place.
  graphs() {
    return this.told.map((graph) => {
      const whole = this.kept.get(graph.id);
      return whole?.nodes ? { ...graph, ...whole.counts, nodes: whole.nodes, version: whole.version } : graph;
    });
  }

  // Which of them have to be asked for now, the one that was not for longest.
  next(now) {
    const due = this.told.filter((graph) => {
      const whole = this.kept.get(graph.id);
      if (!whole) return graph.tasks > graph.nodes.length && graph.tasks <= WHOLE_LIMIT;
      return !(whole.isFinal && !graph.runs) && now >= whole.dueAt;
    });
    return due.reduce((first, one) => (!first || this.dueAt(one) < this.dueAt(first) ? one : first), undefined);
  }

  dueAt(graph) { return this.kept.get(graph.id)?.dueAt ?? 0; }

  // Called whenever there may be something to ask.
  async ask() {
    if (this.isAsking || document.body.classList.contains("report")) return;
    this.isAsking = true;
    try {
      for (let graph; this.isSeen() && (graph = this.next(Date.now()));) await this.fetch(graph);
    } finally {
      this.isAsking = false;
    }
  }

  async fetch(graph) {
    const before = this.kept.get(graph.id);
    const only = before?.nodes && !before.isStale ? "&states=1" : "";
    let told = {};
    try {
      const response = await fetch(`graph?id=${graph.id}&client=${graph.client}${only}`);
      if (response.ok) told = await response.json();
    } catch { /* asked again later */ }
    if (!this.told.some((one) => one.id === graph.id)) return;
    const whole = merged(before, told);
    this.kept.set(graph.id, whole ?? { ...before, dueAt: Date.now() + LATER });
    if (whole?.nodes) this.changed();
  }
}

// What is kept of a graph after this answer; undefined: the answer is of no use.
function merged(before, { nodes = before?.nodes, states, order, known, tasks, unfinished, failed, canceled }) {
  if (!states || !nodes) return undefined;
  // Of another list, or longer: to be fetched whole.
  const isOther = before?.order !== order || states.length !== nodes.length;
  if (before?.nodes === nodes && isOther) return { ...before, isStale: true, dueAt: 0 };
  if (states.length !== nodes.length) return undefined;
  const at = [...states].map(Number);
  nodes.forEach((node, index) => { node[STATE] = STATES[at[index]]; });
  const isFinal = !known || at.every((one) => one >= UNFINISHED);
  const counts = { tasks, unfinished, failed, canceled }, version = (before?.version ?? 0) + 1;
  return { nodes, order, isFinal, counts, version, dueAt: Date.now() + AGAIN };
}
