// Graphs as they run: tasks in layers, each after all that it depends on, coloured by state. Of large graphs the tasks of
// one function in one layer are one box, which opens.
import { element } from "./format.js";
import { Picture } from "./picture.js";
import { Wholes } from "./whole.js";

const AGAIN = 1000;  // milliseconds

export class Graphs {
  // `page`: its runs and its status say how long tasks take.
  constructor(place, page, explain, openTask) {
    Object.assign(this, { place, page, explain, openTask });
    this.shown = new Map();  // id -> Picture
    this.wholes = new Wholes(() => this.isSeen, () => this.show());
    setInterval(() => this.wholes.ask(), AGAIN);
    place.replaceChildren(element("p", "loading…", { class: "note" }));
  }

  get isSeen() {
    return !document.hidden && this.place.offsetParent !== null;  // null: another view is open
  }

  take(graphs) {
    this.wholes.take(graphs);
    this.show();
    this.wholes.ask();
  }

  // Those that run and the last that did, in the order in which they are shown.
  show() {
    const graphs = this.wholes.graphs();
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

  // The view is open, or looks otherwise now: colours, or the size of the window.
  draw() {
    this.wholes.ask();
    for (const one of this.shown.values()) one.painter.draw();
  }

  // Tasks that have ended, and for how long each of them ran.
  learn(runs) {
    if (!this.shown.size) return;
    for (const one of this.shown.values()) one.learn(runs);
  }
}
