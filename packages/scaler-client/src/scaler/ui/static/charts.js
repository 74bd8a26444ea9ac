// Small charts over time on a canvas: lines, or areas on top of each other. Below each, its numbers as text: those of
// the moment that is pointed at, or of now.
import { clock, element } from "./format.js";

const PALETTE = ["#4c8fd6", "#d98a1f", "#3aa564", "#c2569b"];
const HEIGHT = 150, TOP = 18, FOOT = 16, SIDE = 4;

export function context(canvas, height) {
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  return { pen, width, height };
}

export const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function swatch(colour) {
  const made = element("span", undefined, { class: "swatch", "aria-hidden": "true" });
  made.style.backgroundColor = colour;
  return made;
}

export class Chart {
  // least: the scale goes at least so far, so that noise about zero stays flat
  constructor(figure, names, show, { stacked = false, least = 1e-9 } = {}) {
    Object.assign(this, { names, show, stacked, least, times: [], series: [], breaks: [], pointed: null });
    this.canvas = element("canvas", undefined, { role: "img" });
    this.moment = element("span", "", { class: "moment" });
    this.numbers = names.map(() => element("b"));
    const legend = element("ul", undefined, { class: "legend" });
    names.forEach((name, which) => {
      const item = element("li");
      item.append(swatch(PALETTE[which]), `${name} `, this.numbers[which]);
      legend.append(item);
    });
    figure.append(this.canvas, legend);
    figure.querySelector("figcaption").append(this.moment);
    this.canvas.addEventListener("pointermove", (event) => { this.pointed = event.offsetX; this.draw(); });
    this.canvas.addEventListener("pointerleave", () => { this.pointed = null; this.draw(); });
  }

  // series: for each name as many values as there are times
  update(times, series) {
    Object.assign(this, { times, series });
    this.draw();
  }

  draw() {
    const { pen, width } = context(this.canvas, HEIGHT);
    const { times, series } = this;
    if (!width || !times.length) return;
    const bottom = HEIGHT - FOOT, right = width - SIDE;
    const bands = this.stacked ? stack(series) : series.map((high) => ({ high, low: null }));
    const most = Math.max(this.least, ...bands.map(({ high }) => Math.max(...high)));
    const begin = times[0], span = times.at(-1) - begin || 1;
    const x = (i) => SIDE + (right - SIDE) * (times.length < 2 ? 1 : (times[i] - begin) / span);
    const y = (value) => bottom - (bottom - TOP) * (value / most);
    this.frame(pen, right, bottom);
    bands.forEach((band, which) => {
      for (const run of runsOf(times.length, this.breaks)) line(pen, band, x, y, PALETTE[which], run);
    });
    this.labels(pen, right, bottom, most);
    const index = this.pointed === null ? times.length - 1
      : nearest(times, begin + span * (this.pointed - SIDE) / (right - SIDE));
    if (this.pointed !== null) rule(pen, x(index), TOP, bottom);
    this.moment.textContent = this.pointed === null ? "" : ` at ${clock(times[index])}`;
    this.numbers.forEach((place, which) => { place.textContent = this.show(series[which][index]); });
    const now = this.names.map((name, which) => `${name} ${this.show(series[which].at(-1))}`).join(", ");
    this.canvas.setAttribute("aria-label", `since ${clock(begin)}; now: ${now}; highest: ${this.show(most)}`);
  }

  frame(pen, right, bottom) {
    rule(pen, SIDE, bottom, bottom, right);
    rule(pen, SIDE, TOP, TOP, right);
    rule(pen, SIDE, (TOP + bottom) / 2, (TOP + bottom) / 2, right);
  }

  // Over the lines, with an edge in the colour of the ground: a label can be read wherever a line is.
  labels(pen, right, bottom, most) {
    pen.font = "11px system-ui, sans-serif";
    pen.fillStyle = themed("--soft");
    pen.strokeStyle = themed("--card");
    pen.lineWidth = 3;
    pen.lineJoin = "round";
    pen.textAlign = "left";
    pen.fillText(clock(this.times[0]), SIDE, HEIGHT - 3);
    pen.textAlign = "right";
    pen.fillText(clock(this.times.at(-1)), right, HEIGHT - 3);
    pen.fillText(this.show(most), right, TOP - 5);
    const half = this.show(most / 2), middle = (TOP + bottom) / 2 - 3;
    pen.strokeText(half, right, middle);
    pen.fillText(half, right, middle);
  }
}

function rule(pen, x, top, bottom, right = x) {
  pen.strokeStyle = themed("--line");
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(x, top + 0.5);
  pen.lineTo(right, bottom + 0.5);
  pen.stroke();
}

function nearest(times, wanted) {
  let best = 0;
  times.forEach((at, i) => { if (Math.abs(at - wanted) < Math.abs(times[best] - wanted)) best = i; });
  return best;
}

function stack(series) {
  let low = null;
  return series.map((values) => {
    const high = values.map((value, i) => value + (low ? low[i] : 0));
    const made = { high, low: low ?? high.map(() => 0) };
    low = high;
    return made;
  });
}

// [first, last] of the points between two breaks.
function runsOf(length, breaks) {
  const runs = [];
  for (let i = 0; i < length; i++) {
    if (!runs.length || breaks[i]) runs.push([i, i]);
    runs.at(-1)[1] = i;
  }
  return runs;
}

function line(pen, { high, low }, x, y, colour, [first, last]) {
  pen.beginPath();
  for (let i = first; i <= last; i++) pen.lineTo(x(i), y(high[i]));
  if (low) {
    for (let i = last; i >= first; i--) pen.lineTo(x(i), y(low[i]));
    pen.closePath();
    pen.fillStyle = colour;
    pen.fill();
  } else {
    pen.lineWidth = 1.6;
    pen.strokeStyle = colour;
    pen.stroke();
  }
}
