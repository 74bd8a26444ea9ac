// Numbers for people, and elements whose text is text: nothing here ever becomes markup.
export const count = (value) => Math.round(value).toLocaleString("en-US");
export const percent = (share) => `${(100 * share).toFixed(1)}%`;

export function bytes(value) {
  let unit = 0;
  for (; value >= 1000 && unit < 5; unit++) value /= 1024;
  return unit ? `${value.toFixed(1)} ${" KMGTP"[unit]}iB` : `${Math.round(value)} B`;
}

export function seconds(value) {
  if (value <= 0) return "0 s";
  if (value < 0.001) return `${(value * 1e6).toFixed(0)} µs`;
  if (value < 1) return `${(value * 1e3).toFixed(value < 0.1 ? 1 : 0)} ms`;
  if (value < 100) return `${value.toFixed(1)} s`;
  if (value < 6000) return `${Math.floor(value / 60)} min`;
  return `${(value / 3600).toFixed(1)} h`;
}

// A task's id as people can compare it: whose it is, and the how manyth of that client.
export function taskName(id) {
  const number = BigInt(`0x${id.slice(16).match(/../g)?.reverse().join("") || 0}`);
  return number < 1_000_000_000n ? `${id.slice(0, 8)}:${number}` : id;
}

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export const clock = (at) => new Date(at * 1000).toLocaleTimeString([], { hour12: false });

export function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

// A task's id that leads to its page; `name` is how it is shown.
export function taskButton(id, openTask, name = taskName(id)) {
  const button = element("button", name, { type: "button", class: "link" });
  button.addEventListener("click", () => openTask(id));
  return button;
}

// The colour of a function: its name says which of some that can be told apart, or the next one that is free. Without
// red, which is for what failed (and that has a mark too, for colour is not all there may be).
const PALETTE = [
  "#4878cf", "#e49444", "#6a9f58", "#a87c9f", "#d1ab28", "#3c9d9b", "#967662", "#8b6fd6", "#b8529a", "#5fa8d3", "#7f8c3b",
];
const slots = new Map();
const taken = new Set();
export function colour(name) {
  let found = slots.get(name);
  if (!found) {
    let hash = 2166136261;
    for (let i = 0; i < name.length; i++) hash = Math.imul(hash ^ name.charCodeAt(i), 16777619) >>> 0;
    let slot = hash % PALETTE.length;
    while (taken.has(slot) && taken.size < PALETTE.length) slot = (slot + 1) % PALETTE.length;
    taken.add(slot);
    found = PALETTE[slot];
    if (slots.size > 5000) slots.clear();
    slots.set(name, found);
  }
  return found;
}
