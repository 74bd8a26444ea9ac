// Small charts over time on a canvas: lines, or areas on top of each other. What they show is also said in words.
import { clock } from "./format.js";

const PALETTE = ["#4c8fd6", "#d98a1f", "#3aa564", "#c2569b", "#8c77d9", "#7d8791"];

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

// series: {name, values}; all as long as `times`
export function draw(canvas, times, series, { show, stacked = false }) {
  const { pen, width, height } = context(canvas, canvas.clientHeight);
  if (!width) return;
  const top = 20, bottom = height - 16, left = 4, right = width - 4;
  const heights = stacked ? stack(series) : series.map((one) => ({ high: one.values, low: null }));
  const most = Math.max(1e-9, ...heights.flatMap(({ high }) => high));
  const x = (i) => left + (right - left) * (times.length < 2 ? 1 : (times[i] - times[0]) / (times.at(-1) - times[0] || 1));
  const y = (value) => bottom - (bottom - top) * (value / most);
  pen.font = "11px system-ui, sans-serif";
  pen.strokeStyle = themed("--line");
  pen.fillStyle = themed("--soft");
  pen.beginPath();
  pen.moveTo(left, bottom + 0.5);
  pen.lineTo(right, bottom + 0.5);
  pen.moveTo(left, top + 0.5);
  pen.lineTo(right, top + 0.5);
  pen.stroke();
  if (times.length) {
    pen.fillText(clock(times[0]), left, height - 3);
    pen.textAlign = "right";
    pen.fillText(clock(times.at(-1)), right, height - 3);
    pen.fillText(show(most), right, top - 6);
    pen.textAlign = "left";
  }
  heights.forEach(({ high, low }, which) => line(pen, high, low, x, y, PALETTE[which % PALETTE.length]));
  legend(pen, series, left, top - 7, right - 80);
  const last = series.map((one) => `${one.name} ${show(one.values.at(-1) ?? 0)}`).join(", ");
  canvas.setAttribute("aria-label", `now: ${last}; highest: ${show(most)}`);
}

function stack(series) {
  let low = null;
  return series.map((one) => {
    const high = one.values.map((value, i) => value + (low ? low[i] : 0));
    const made = { high, low: low ?? high.map(() => 0) };
    low = high;
    return made;
  });
}

function line(pen, high, low, x, y, colour) {
  if (!high.length) return;
  pen.beginPath();
  high.forEach((value, i) => (i ? pen.lineTo(x(i), y(value)) : pen.moveTo(x(i), y(value))));
  if (low) {
    for (let i = low.length - 1; i >= 0; i--) pen.lineTo(x(i), y(low[i]));
    pen.closePath();
    pen.fillStyle = colour;
    pen.fill();
  } else {
    pen.lineWidth = 1.6;
    pen.strokeStyle = colour;
    pen.stroke();
  }
}

function legend(pen, series, left, baseline, right) {
  let at = left;
  series.forEach((one, which) => {
    const wide = pen.measureText(one.name).width + 18;
    if (at + wide > right) return;
    pen.fillStyle = PALETTE[which % PALETTE.length];
    pen.fillRect(at, baseline - 8, 8, 8);
    pen.fillStyle = themed("--text");
    pen.fillText(one.name, at + 11, baseline);
    at += wide;
  });
}
