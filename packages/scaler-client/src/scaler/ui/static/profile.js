// Where the time of running tasks goes: a flame graph of calls, the first ones at the top. The cluster samples only while
// this view asks for it.
import { colour, count, element, percent, plural, seconds } from "./format.js";
import { Table, matches, words } from "./table.js";

const AGAIN_MILLISECONDS = 2000;
const ROW = 22, LEAST = 0.002;  // pixels of a row, and the least share of the width that is drawn
const NAME = 0, FILE = 1, LINE = 2;
const at = (id) => document.getElementById(id);

export class Profile {
  constructor() {
    this.isOpen = this.isPaused = false;
    this.zoomed = "";  // the path of the node that has the whole width; empty: all
    this.focused = "";
    this.told = null;
    this.flame = at("profile-flame");
    this.table = new Table(at("profile-table"), [
      { key: "name", title: "Call" }, { key: "place", title: "Defined in" },
      { key: "own", title: "By itself", show: inSeconds, number: true },
      { key: "share", title: "Share", show: percent, number: true },
    ], { caption: "Calls that took most by themselves", empty: "nothing was sampled yet" });
    at("profile-seconds").addEventListener("change", () => this.ask());
    at("profile-function").addEventListener("change", () => { this.zoomed = ""; this.ask(); });
    at("profile-search").addEventListener("input", () => this.show());
    at("profile-out").addEventListener("click", () => this.zoom(""));
    at("profile-pause").addEventListener("click", () => {
      this.isPaused = !this.isPaused;
      at("profile-pause").setAttribute("aria-pressed", String(this.isPaused));
      this.later(0);
    });
    document.addEventListener("visibilitychange", () => this.later(0));
    window.addEventListener("resize", () => this.draw());
    this.flame.addEventListener("keydown", (event) => this.key(event));
  }

  open(isOpen) {
    if (this.isOpen === isOpen) return;
    this.isOpen = isOpen;
    this.later(0);
  }

  later(milliseconds) {
    clearTimeout(this.timer);
    if (this.isOpen && !this.isPaused && !document.hidden) this.timer = setTimeout(() => this.ask(), milliseconds);
  }

  wanted() {
    return new URLSearchParams({ seconds: at("profile-seconds").value, function: at("profile-function").value });
  }

  async ask() {
    const wanted = this.wanted().toString();
    at("profile-save").href = `profile.speedscope.json?${wanted}`;
    try {
      const response = await fetch(`profile.json?${wanted}`);
      const told = response.ok ? await response.json() : await response.text();
      if (!response.ok) note(told);
      else if (wanted === this.wanted().toString()) this.take(told);
    } catch {
      note("scaler_ui does not answer");
    }
    this.later(AGAIN_MILLISECONDS);
  }

  take(told) {
    this.told = told;
    if (told.recording) return note("A recording has no profile: open the page of a scheduler.");
    if (told.hidden) {
      return note("The operator of this scheduler does not show texts of programs, so nothing is sampled. Start it with --monitor-texts.");
    }
    this.tree = treeOf(told);
    this.choices(told.functions);
    this.show();
  }

  choices(functions) {
    const place = at("profile-function"), chosen = place.value;
    const names = ["", ...functions.map(([name]) => name)];
    if (chosen && !names.includes(chosen)) names.push(chosen);
    if (names.join("\n") === [...place.options].map((one) => one.value).join("\n")) return;
    place.replaceChildren(...names.map((name) => element("option", name || "all functions", { value: name })));
    place.value = chosen;
  }

  show() {
    if (!this.tree) return;
    const { told, tree } = this;
    const wanted = words(at("profile-search"));
    const found = wanted.length ? totalOf(tree, (node) => matches(wanted, node.frame[NAME], placeOf(node.frame))) : 0;
    const of = told.sampled < told.able ? `${count(told.sampled)} of ${plural(told.able, "worker")} at a time, in turn` : plural(told.able, "worker");
    const mute = told.workers > told.able ? `; ${plural(told.workers - told.able, "worker")} cannot be sampled` : "";
    note(!told.heard ? "waiting for the scheduler…"
      : !tree.total ? `No task has run on the sampled workers (${of}${mute}) in this time, or the first samples are on their way.`
        : `${inSeconds(tree.total)} of tasks sampled on ${of}${mute}` +
          (wanted.length ? `; ${percent(found / tree.total)} in calls that were searched for` : ""));
    this.draw();
    const own = new Map();
    each(tree, (node) => own.set(node.frame, (own.get(node.frame) ?? 0) + node.own));
    this.table.show([...own].filter(([frame, time]) => time && (!wanted.length || matches(wanted, frame[NAME], placeOf(frame))))
      .map(([frame, time]) => ({ name: frame[NAME], place: placeOf(frame), own: time, share: time / tree.total }))
      .sort((a, b) => b.own - a.own).slice(0, 30));
  }

  draw() {
    if (!this.tree || !this.isOpen) return;
    const wanted = words(at("profile-search"));
    const hadFocus = this.flame.contains(document.activeElement);
    const root = nodeAt(this.tree, this.zoomed) ?? this.tree;
    if (root === this.tree) this.zoomed = "";
    at("profile-out").hidden = !this.zoomed;
    const bars = [], above = [];
    for (let node = root; node.parent; node = node.parent) above.unshift(node);
    for (const node of above) bars.push(this.bar(node, 0, 1, node.level, wanted));
    const place = (node, left) => {
      for (const child of node.children) {
        const width = child.total / root.total;
        if (width >= LEAST) {
          bars.push(this.bar(child, left, width, child.level, wanted));
          place(child, left);
        }
        left += width;
      }
    };
    if (root.total) place(root, 0);
    this.flame.replaceChildren(...bars);
    this.flame.style.height = `${ROW * Math.max(1, ...bars.map((bar) => Number(bar.ariaLevel)))}px`;
    this.flame.hidden = !bars.length;
    const current = bars.find((bar) => bar.dataset.path === this.focused) ?? bars[0];
    if (current) current.tabIndex = 0;
    if (hadFocus) current?.focus();
  }

  bar(node, left, width, level, wanted) {
    const { frame, total } = node;
    const label = `${frame[NAME]}${frame[FILE] ? `, ${placeOf(frame)}` : ""}: ${inSeconds(total)}, ${percent(total / this.tree.total)}`;
    const bar = element("div", frame[NAME], { role: "treeitem", "aria-level": level, "aria-label": label, title: label });
    bar.ariaLevel = String(level);
    bar.tabIndex = -1;
    bar.dataset.path = node.path;
    Object.assign(bar.style, { left: `${100 * left}%`, width: `${100 * width}%`, top: `${ROW * (level - 1)}px` });
    bar.style.setProperty("--bar", colour(frame[FILE] || frame[NAME]));
    if (wanted.length) bar.classList.toggle(matches(wanted, frame[NAME], placeOf(frame)) ? "found" : "passed", true);
    bar.addEventListener("click", () => this.zoom(node.path));
    bar.addEventListener("focus", () => this.tell(node, label));
    bar.addEventListener("pointerenter", () => this.tell(node, label));
    return bar;
  }

  tell(node, label) {
    if (document.activeElement?.dataset?.path === node.path) this.focused = node.path;
    at("profile-detail").textContent = `${label}; by itself ${inSeconds(node.own)}`;
  }

  zoom(path) {
    Object.assign(this, { zoomed: path, focused: path });
    this.draw();
  }

  // Up and down between a call and what it calls, left and right between calls of one call.
  key(event) {
    const node = nodeAt(this.tree, document.activeElement?.dataset?.path ?? "");
    if (!node?.parent) return;
    const siblings = node.parent.children, place = siblings.indexOf(node);
    const next = {
      ArrowUp: () => node.parent, ArrowDown: () => node.children[0], ArrowLeft: () => siblings[place - 1],
      ArrowRight: () => siblings[place + 1], Home: () => siblings[0], End: () => siblings.at(-1),
    }[event.key];
    if (next) {
      event.preventDefault();
      const path = next()?.path;
      [...this.flame.children].find((bar) => bar.dataset.path === path)?.focus();
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.zoom(node.path);
    } else if (event.key === "Escape") {
      const { focused } = this;
      this.zoom("");
      this.focused = focused;
    }
  }
}

const inSeconds = (microseconds) => seconds(microseconds / 1e6);
const placeOf = (frame) => (frame[FILE] ? `${frame[FILE]}${frame[LINE] ? `:${frame[LINE]}` : ""}` : "");

function note(text) {
  if (at("profile-note").textContent !== text) at("profile-note").textContent = text;
}

// What the server tells are rows: parent, frame, microseconds. A parent comes before its children.
function treeOf({ frames, nodes }) {
  const root = { frame: ["", "", 0], own: 0, total: 0, children: [], parent: null, path: "", level: 0 };
  const made = [root];
  for (const [parent, frame, own] of nodes) {
    const above = made[parent];
    const node = { frame: frames[frame], own, total: own, children: [], parent: above, level: above.level + 1 };
    node.path = `${above.path}\n${node.frame.join("\t")}`;
    above.children.push(node);
    made.push(node);
  }
  for (const node of made.slice(1).reverse()) node.parent.total += node.total;
  for (const node of made) node.children.sort((a, b) => (a.path < b.path ? -1 : 1));  // so that bars keep their places
  return root;
}

function each(node, visit) {
  for (const child of node.children) {
    visit(child);
    each(child, visit);
  }
}

// Of the outermost nodes that are wanted: those below are in their time.
function totalOf(node, isWanted) {
  return node.children.reduce((sum, child) => sum + (isWanted(child) ? child.total : totalOf(child, isWanted)), 0);
}

function nodeAt(tree, path) {
  let node = tree;
  while (node && node.path !== path) {
    node = node.children.find((child) => path === child.path || path.startsWith(`${child.path}\n`));
  }
  return node ?? null;
}
