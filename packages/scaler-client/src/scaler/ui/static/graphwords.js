// What the page says of a graph and its tasks.
import { count } from "./format.js";
import { KEY, NAME, STATE } from "./layout.js";

export const WORDS = { ended: "succeeded", skipped: "never ran" };
export const ORDER = ["failed", "ended", "skipped", "canceled", "canceling", "dispatched", "queued", "waiting"];
export const ENDED = new Set(["ended", "failed", "canceled", "skipped"]);
const WAY_SHOWN = 6;

export function countsOf(nodes, members) {
  const counts = {};
  for (const one of members) counts[nodes[one][STATE]] = (counts[nodes[one][STATE]] ?? 0) + 1;
  return counts;
}

// Its key, if its program has given it one.
export function calledOf(node) {
  return node[KEY] || node[NAME];
}

// Without its middle, as the keys of one collection differ at their ends.
export function cut(text, letters) {
  const all = [...text], end = Math.floor((letters - 1) / 2);
  return all.length <= letters ? text : `${all.slice(0, letters - 1 - end).join("")}…${all.slice(-end).join("")}`;
}

export function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// How a graph ended in which something failed or was canceled; empty: nothing was.
export function ending({ nodes, tasks, unfinished, failed, canceled }, isCut) {
  if (!failed && !canceled) return "";
  const first = nodes.find((node) => node[STATE] === "failed");
  const skipped = nodes.filter((node) => node[STATE] === "skipped").length;
  const wrong = isCut ? [[failed, "failed or never ran"]] : [[failed - skipped, "failed"], [skipped, "never ran"]];
  const counts = counted([...wrong, [canceled, "canceled"], [tasks - unfinished - failed - canceled, "succeeded"],
    [unfinished, "unfinished"]]);
  return `${first ? `failed at ${calledOf(first)}` : failed ? "failed" : "canceled"}: ${counts}`;
}

// What became of the tasks of a graph that are not drawn.
export function leftOut({ nodes, tasks, unfinished, failed, canceled }) {
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

// The tasks that a way goes through: by their keys, if they have any, else by their functions.
export function through(nodes, path) {
  const called = path.map((one) => calledOf(nodes[one]));
  const names = called.filter((name, index) => name !== called[index - 1]);
  return (names.length > WAY_SHOWN ? [...names.slice(0, 3), "…", ...names.slice(-2)] : names).join(" → ");
}
