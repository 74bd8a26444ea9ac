// Two recordings side by side, in a report that was made of two.
import { bytes, count, element, percent, seconds } from "./format.js";
import { Table } from "./table.js";
import { USES, worked } from "./use.js";

const FACTS = [
  ["Recorded for", (side) => seconds(side.seconds)],
  ["Tasks that ended", (side) => count(side.ended)],
  ["Did not succeed", (side) => count(side.failed)],
  ["Workers, at most", (side) => count(side.workers)],
  ["Memory of workers, at most", (side) => bytes(side.memory)],
  ["Object storage, at most", (side) => bytes(side.storage)],
  ["Worker-seconds", (side) => seconds(worked(side.use))],
  ...USES.map(([key, text]) => [text, (side) => share(side.use[key], worked(side.use))]),
  ["Processor time of worker-seconds", (side) => share(side.use.cpu, worked(side.use))],
];

// A view of its own, the first one: the tab must be there before the tabs are looked for.
export function addComparison(sides) {
  const tab = element("button", "Compare", {
    role: "tab", id: "tab-compare", type: "button", "aria-controls": "compare", "aria-selected": "false", tabindex: "-1",
  });
  document.querySelector("[role=tablist]").append(tab);
  const view = element("section", undefined,
    { role: "tabpanel", id: "compare", "aria-labelledby": "tab-compare", tabindex: "0", hidden: "" });
  const facts = element("div"), functions = element("div");
  view.append(element("h2", "Both recordings"), facts, element("h2", "Functions"), functions);
  document.getElementById("main").append(view);
  const [first, second] = sides;
  const titles = first.name === second.name ? ["first", "second"] : [first.name, second.name];
  new Table(facts, [
    { key: "name", title: "Figure" }, { key: "first", title: titles[0], number: true },
    { key: "second", title: titles[1], number: true },
  ], { caption: "Figures of both recordings" })
    .show(FACTS.map(([name, text]) => ({ name, first: text(first), second: text(second) })));
  const column = (key, title, show) => ({ key, title, number: true, show: (value) => (value === null ? "–" : show(value)) });
  new Table(functions, [
    { key: "name", title: "Function" },
    column("ended0", "ended, first", count), column("ended1", "second", count),
    column("mean0", "mean, first", seconds), column("mean1", "second", seconds), column("mean", "second ÷ first", ratio),
    column("p990", "p99, first", seconds), column("p991", "second", seconds),
    column("cpu0", "CPU, first", seconds), column("cpu1", "second", seconds), column("cpu", "second ÷ first", ratio),
  ], { caption: "Functions of both recordings" }).show(rows(first.work, second.work));
}

function rows(first, second) {
  const names = [...new Set([...first, ...second].map((one) => one.name))];
  return names.map((name) => {
    const sides = [first, second].map((work) => work.find((one) => one.name === name));
    const row = { name };
    sides.forEach((side, i) => {
      row[`ended${i}`] = side ? side.success + side.failed + side.canceled : null;
      for (const key of ["mean", "p99", "cpu"]) row[`${key}${i}`] = side?.[key] ?? null;
    });
    for (const key of ["mean", "cpu"]) row[key] = row[`${key}0`] && row[`${key}1`] !== null ? row[`${key}1`] / row[`${key}0`] : null;
    return row;
  });
}

const share = (part, all) => (all ? percent(part / all) : "–");
const ratio = (value) => `${value.toFixed(2)}×`;
