// The boxes of a large graph on a canvas, which has the size of what is seen of it and draws only that.
import { context, themed } from "./charts.js";
import { element } from "./format.js";
import { ORDER, countsOf } from "./graphwords.js";
import { STATE } from "./layout.js";

const LINES_MOST = 2000;  // of more lines in sight some are drawn: all would be one grey
const LEAST = 3;  // pixels of a box that failed, is chosen or on the longest way, however far away
const FAR = 0.5;  // a zoom below which lines are fainter
const DASHED = new Set(["canceled", "skipped"]);
const SLOPE = 0.5;
const EDGES = [["--soft", 1, [3, 2]], ["--accent", 2, []], ["--bad", 3, []], ["--text", 2, []]];  // by rank

export class Canvas {
  constructor(picture) {
    this.picture = picture;
    this.element = element("div", undefined, { class: "sheet" });
    this.canvas = element("canvas", undefined, { "aria-hidden": "true" });
    this.swatches = new Map(ORDER.map((state) => [state, element("span", undefined, { class: `swatch ${state}`, hidden: "" })]));
    this.element.append(this.canvas, ...this.swatches.values());
    this.columns = columnsOf(picture.boxes, picture.spots);
    this.lines = picture.boxes.flatMap((box, index) => box.needs.map((one) => [one, index]));
    this.canvas.addEventListener("click", (event) => this.at(event, (index) => picture.choose(index)));
    this.canvas.addEventListener("dblclick", (event) => this.at(event, (index) => { picture.choose(index); picture.toggle(); }));
    this.canvas.addEventListener("pointermove", (event) => {
      this.canvas.title = "";
      this.at(event, (index) => { this.canvas.title = picture.nameOf(picture.boxes[index]); });
    });
  }

  // Calls with the box that is pointed at, of several the one that is drawn last, or the next one within some pixels.
  at({ offsetX, offsetY }, act) {
    const { frame, zoom, spots, sizes: { wide, high } } = this.picture;
    const x = (offsetX + frame.scrollLeft) / zoom, y = (offsetY + frame.scrollTop) / zoom, slack = LEAST / zoom;
    let best, least = slack, highest = 0;
    for (const index of this.visible(x - slack, y - slack, x + slack, y + slack)) {
      const rank = this.rank(index), grown = rank ? this.grown : 0, spot = spots[index];
      const away = Math.max(0, spot.x - x - grown, x - spot.x - wide - grown, spot.y - y - grown, y - spot.y - high - grown);
      if (away < least || (away === least && rank > highest)) [best, least, highest] = [index, away, rank];
    }
    if (best !== undefined) act(best);
  }

  // What is marked, the higher the later it is drawn.
  rank(index) {
    const { boxes, graph: { nodes }, onWay, chosen } = this.picture;
    if (boxes[index].key === chosen) return 3;
    if (boxes[index].members.some((one) => nodes[one][STATE] === "failed")) return 2;
    return onWay.has(index) ? 1 : 0;
  }

  // By so much what is marked is larger on each side than it is, so that it has some pixels.
  get grown() {
    return Math.max(0, (LEAST / this.picture.zoom - this.picture.sizes.high) / 2);
  }

  // The boxes that reach into this part of the picture.
  * visible(left, top, right, bottom) {
    const { spots, sizes: { wide, high } } = this.picture;
    for (const column of this.columns) {
      const { x } = spots[column[0]];
      if (x > right || x + wide < left) continue;
      for (let i = firstBelow(column, spots, top - high); i < column.length && spots[column[i]].y <= bottom; i++) yield column[i];
    }
  }

  paint() { this.soon(); }

  soon() {
    this.asked ??= requestAnimationFrame(() => { this.asked = undefined; this.draw(); });
  }

  resize(zoom) {
    this.element.style.width = `${this.picture.width * zoom}px`;
    this.element.style.height = `${this.picture.height * zoom}px`;
    this.soon();
  }

  reveal(index) {
    const { frame, zoom, spots, sizes: { wide, high } } = this.picture;
    const { x, y } = spots[index];
    const moved = (from, shown, begin, size) => Math.min(Math.max(from, (begin + size) * zoom - shown + 1), begin * zoom - 1);
    frame.scrollTo(moved(frame.scrollLeft, frame.clientWidth, x, wide), moved(frame.scrollTop, frame.clientHeight, y, high));
  }

  draw() {
    const { picture: { frame, zoom, width, height, onWay }, canvas } = this;
    const wide = Math.min(frame.clientWidth, Math.ceil(width * zoom)), high = Math.min(frame.clientHeight, Math.ceil(height * zoom));
    if (!wide || !high || !onWay) return;
    canvas.style.width = `${wide}px`;
    canvas.style.height = `${high}px`;
    const { pen } = context(canvas, high);
    pen.translate(-frame.scrollLeft, -frame.scrollTop);
    pen.scale(zoom, zoom);
    const left = frame.scrollLeft / zoom, top = frame.scrollTop / zoom;
    const sight = { left, top, right: left + wide / zoom, bottom: top + high / zoom };
    this.drawLines(pen, sight);
    this.drawBoxes(pen, sight);
  }

  drawLines(pen, { left, top, right, bottom }) {
    const { spots, sizes: { wide, high }, onWay, zoom } = this.picture;
    const inSight = this.lines.filter(([from, to]) => {
      const a = spots[from], b = spots[to];
      return a.x <= right && b.x + wide >= left && Math.min(a.y, b.y) <= bottom && Math.max(a.y, b.y) + high >= top;
    });
    const every = Math.ceil(inSight.length / LINES_MOST);
    const line = ([from, to]) => {
      const x = spots[from].x + wide, y = spots[from].y + high / 2, toX = spots[to].x, toY = spots[to].y + high / 2;
      const bend = SLOPE * (toX - x);
      pen.moveTo(x, y);
      if (every > 1) pen.lineTo(toX, toY);
      else pen.bezierCurveTo(x + bend, y, toX - bend, toY, toX, toY);
    };
    const stroke = (lines, colour, thickness, alpha) => {
      pen.globalAlpha = alpha;
      pen.strokeStyle = colour;
      pen.lineWidth = thickness / zoom;
      pen.beginPath();
      lines.forEach(line);
      pen.stroke();
      pen.globalAlpha = 1;
    };
    stroke(inSight.filter((_, index) => index % every === 0), themed("--soft"), 1, every > 1 || zoom < FAR ? 0.08 : 0.25);
    stroke(inSight.filter(([from, to]) => onWay.has(from) && onWay.has(to)), themed("--accent"), 2.5, 1);
  }

  drawBoxes(pen, { left, top, right, bottom }) {
    const { boxes, graph: { nodes } } = this.picture;
    const paints = new Map([...this.swatches].map(([state, one]) => [state, getComputedStyle(one).backgroundColor]));
    paints.set("group", themed("--card"));
    const marked = [];
    for (const index of this.visible(left, top, right, bottom)) {
      const state = boxes[index].isGroup ? "group" : nodes[boxes[index].members[0]][STATE], rank = this.rank(index);
      if (rank || DASHED.has(state)) marked.push({ index, state, rank });
      else this.fill(pen, index, state, paints);
    }
    marked.sort((a, b) => a.rank - b.rank);
    for (const one of marked) this.mark(pen, one, paints);
  }

  fill(pen, index, state, paints, grown = 0) {
    const { boxes, graph: { nodes }, spots, sizes: { wide, high } } = this.picture;
    const { x, y } = spots[index], box = boxes[index];
    pen.fillStyle = paints.get(state);
    pen.fillRect(x - grown, y - grown, wide + 2 * grown, high + 2 * grown);
    if (!box.isGroup) return;
    const counts = countsOf(nodes, box.members);
    let at = x;
    for (const one of ORDER) {
      const share = wide * (counts[one] ?? 0) / box.members.length;
      pen.fillStyle = paints.get(one);
      pen.fillRect(at, y, share, high);
      at += share;
    }
  }

  // With an edge, as the classes of the same names have in SVG.
  mark(pen, { index, state, rank }, paints) {
    const { spots, sizes: { wide, high }, zoom } = this.picture;
    const { x, y } = spots[index], grown = rank ? this.grown : 0;
    const [colour, thickness, dashes] = EDGES[rank];
    this.fill(pen, index, state, paints, grown);
    pen.strokeStyle = themed(colour);
    pen.lineWidth = thickness / Math.max(1, zoom);
    pen.setLineDash(dashes);
    pen.strokeRect(x - grown, y - grown, wide + 2 * grown, high + 2 * grown);
    pen.setLineDash([]);
  }
}

// The boxes of each layer, from top to bottom.
function columnsOf(boxes, spots) {
  const columns = [];
  boxes.forEach((box, index) => (columns[box.layer] ??= []).push(index));
  for (const column of columns) column.sort((a, b) => spots[a].y - spots[b].y);
  return columns;
}

function firstBelow(column, spots, top) {
  let low = 0, high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spots[column[middle]].y < top) low = middle + 1;
    else high = middle;
  }
  return low;
}
