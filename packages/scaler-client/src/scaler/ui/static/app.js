// The page: listens to the server's events, keeps what they tell, and shows the view that is open.
import { addComparison } from "./compare.js";
import { Control } from "./control.js";
import { Errors } from "./errors.js";
import { taskButton, taskName } from "./format.js";
import { Functions } from "./functions.js";
import { Graphs } from "./graphs.js";
import { Profile } from "./profile.js";
import { Replay } from "./replay.js";
import { Stream } from "./stream.js";
import { TaskPage } from "./task.js";
import { Views } from "./views.js";

const RUNS_KEPT = 100000, POINTS_KEPT = 900, LOGS_KEPT = 500;
const at = (id) => document.getElementById(id);

const page = {
  status: {}, history: [], logs: [], failures: [], errors: new Map(), events: [], condition: {}, dropped: 0,
  stream: { runs: [], shares: [], at: Date.now() / 1000, isLoading: true },
};
const explain = (task) => { open("waiting"); at("explain-task").value = task; ask(); };
// While the runs come that were before, the latest first: those that the page had already, and those that have come.
let loading = null;
let resumed = null;  // the page had a connection before, and has the runs until there
const control = new Control();
const task = new TaskPage(page, () => graphs.wholes.graphs(), control);
// An event has only the short id of its task: the page may show the task, or the scheduler may have it.
const openTask = async (id) => {
  const whole = id.includes(":") ? wholeId(id) ?? (await told(id)).task : id;
  if (whole) task.open(whole);
  else explain(id);
};
const stream = new Stream(page.stream, openTask);
const graphs = new Graphs(at("graph-list"), page, explain, openTask);
const views = new Views(page, openTask, control, open);
const errors = new Errors(page, openTask);
const functions = new Functions(page);
const profile = new Profile();
const replay = new Replay();

// ---------------------------------------------------------------- what the server says

const takes = {
  resume(told) { resumed = told; },
  beginning(told) {
    page.status = told.status;
    control.allow(Boolean(told.control));
    Object.assign(page, { history: [], logs: [], failures: [], errors: new Map(), events: [] });
    // A connection that was lost while runs were coming has brought some of them only.
    const had = resumed ? loading?.had ?? page.stream.runs : [];
    loading = resumed?.count === 0 ? null : { had, come: [] };
    Object.assign(page.stream, { runs: had, shares: [], isLoading: true });
    page.stream.at = told.status.at ?? page.stream.at;
    views.forget();
    know();
    takes.graphs(told);
    takes.condition(told);
  },
  // What was before the page was opened; the runs of it follow in parts.
  past(told) {
    Object.assign(page, { history: told.history, logs: told.logs });
    Object.assign(page.stream, { shares: told.shares, isLoading: told.runs > 0 && !resumed });
    if (!told.runs) loading = null;
    resumed = null;
    views.forget();
    errors.take(told.failures);
    errors.takeEvents(told.events);
  },
  status(told) {
    page.traffic = trafficOf(page.status);
    page.status = told.status;
    functions.take(told.status);
    know();
    page.stream.at = told.status.at;
    page.history.push(told.point);
    if (page.history.length > POINTS_KEPT) page.history.shift();
  },
  // After the beginning, in parts: the runs that it has counted.
  runs(told) {
    loading.come = [...told.runs, ...loading.come];
    Object.assign(page.stream, { runs: [...loading.had, ...loading.come].slice(-RUNS_KEPT), isLoading: false });
    if (told.complete) loading = null;
    graphs.learn(told.runs);
  },
  tasks(told) {
    const { runs, shares } = page.stream;
    for (const run of told.runs) runs.push(run);
    if (runs.length > RUNS_KEPT) runs.splice(0, runs.length - RUNS_KEPT);
    page.stream.isLoading = false;
    graphs.learn(told.runs);
    shares.push(told.share);
    if (shares.length > POINTS_KEPT) shares.shift();
  },
  replay: (told) => replay.take(told),
  comparison: (told) => addComparison(told.sides),
  failures: (told) => errors.take(told.failures),
  events: (told) => errors.takeEvents(told.events),
  graphs: (told) => graphs.take(told.graphs),
  logs(told) {
    page.logs = [...page.logs, ...told.lines].slice(-LOGS_KEPT);
    views.printed += told.lines.length;
  },
  condition(told) {
    page.condition = told;
    at("address").textContent = told.address;
    const isWell = ["live", "ended"].includes(told.condition);
    document.title = `${isWell ? "" : "(!) "}Scaler ${told.address}`;
    const extra = [
      told.restarts ? `restarted ${told.restarts}×` : "", told.missed ? `${told.missed} updates missed` : "",
      page.dropped ? `this page was too slow for ${page.dropped} updates` : "",
    ].filter(Boolean).join(", ");
    const shown = { live: `live${extra ? `: ${extra}` : ""}`, ended: "recording ended" }[told.condition];
    say(shown ?? told.condition, told.condition);
    notice(isWell ? "" : told.text || "waiting for the scheduler…");
    at("start-command").textContent = `scaler_scheduler ${told.address}`;
  },
  dropped(told) {
    page.dropped += told.count;
    takes.condition(page.condition);
  },
};

// What had travelled at the status before, for rates.
function trafficOf({ at: moment, storage }) {
  return storage ? { at: moment, hosts: new Map(storage.traffic.map((one) => [one.host, one])) } : null;
}

// Before there is a status, each view says only that nothing is known: what is not there may only be unheard.
function know() {
  document.body.classList.toggle("unknown", !page.status.workers);
}

function say(text, kind) {
  const place = at("condition");
  if (place.textContent !== text) place.textContent = text;
  place.className = kind;
}

function notice(text) {
  const place = at("notice");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

// EventSource dials again by itself; each time the server begins from the beginning.
function listen() {
  const source = new EventSource("events");
  for (const kind of Object.keys(takes)) {
    source.addEventListener(kind, (event) => {
      takes[kind](JSON.parse(event.data));
      soon();
    });
  }
  source.addEventListener("error", () => {
    say("no connection", "silent");
    notice(source.readyState === EventSource.CLOSED
      ? "scaler_ui refuses this page: too many are open, or it asks for its token. Open its link again."
      : "This page has lost scaler_ui, its own server. It tries again by itself.");
  });
}

// A report has no server: all that one would have told is in the file.
function show(recorded) {
  document.body.classList.add("report");
  at("chart-minutes").append(new Option("whole recording", "1e9", true, true));
  const told = JSON.parse(recorded.textContent);
  for (const [kind, content] of told) takes[kind](content);
  stream.last();
}

// ---------------------------------------------------------------- showing

let current = "overview";
let frame = null;
const recorded = at("recorded");
if (recorded) show(recorded);
else listen();

function soon() {
  if (frame || document.hidden) return;
  frame = requestAnimationFrame(() => {
    frame = null;
    if (current === "stream") stream.draw();
    else if (current === "errors") errors.show();
    else if (current === "work") functions.show();
    else if (current === "events") errors.showEvents();
    else if (current === "graphs") graphs.draw();
    else views.show(current);
    task.refresh();
  });
}

function open(view) {
  current = view;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const is = tab.id === `tab-${view}`;
    tab.setAttribute("aria-selected", String(is));
    tab.tabIndex = is ? 0 : -1;
    at(tab.getAttribute("aria-controls")).hidden = !is;
  }
  at(view).prepend(at("nothing-yet"));
  profile.open(view === "profile");
  history.replaceState(null, "", `#/${view}`);  // no element's id: the browser must not scroll to it
  soon();
}

const tabs = [...document.querySelectorAll("[role=tab]")];
for (const tab of tabs) {
  tab.addEventListener("click", () => open(tab.getAttribute("aria-controls")));
  tab.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const index = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1
      : step ? (tabs.indexOf(tab) + step + tabs.length) % tabs.length : -1;
    if (index < 0) return;
    event.preventDefault();
    tabs[index].focus();
    tabs[index].click();
  });
}
document.addEventListener("visibilitychange", soon);
window.addEventListener("resize", soon);
window.addEventListener("hashchange", () => open(named(location.hash)));

// What the scheduler says of a task.
async function told(id) {
  if (recorded) return { text: "" };
  try {
    const response = await fetch(`explain?task=${encodeURIComponent(id)}`);
    return response.ok ? await response.json() : { text: await response.text() };
  } catch {
    return { text: "scaler_ui does not answer" };
  }
}

function wholeId(short) {
  const { failures, stream } = page;
  const isIt = (id) => id.startsWith(short.slice(0, 8)) && taskName(id) === short;
  return failures.findLast((one) => isIt(one.task))?.task ?? stream.runs.findLast((run) => isIt(run[0]))?.[0];
}

async function ask() {
  const place = at("explain-answer");
  place.textContent = "…";
  const { task: id, function: name, user, text } = await told(at("explain-task").value.trim());
  if (!id) {
    place.textContent = text;
    return;
  }
  place.replaceChildren(`${name || "task"} `, taskButton(id, openTask), `${user ? ` of ${user}` : ""}: ${text}`);
}
at("explain-ask").addEventListener("click", ask);
at("explain-task").addEventListener("keydown", (event) => { if (event.key === "Enter") ask(); });

// ---------------------------------------------------------------- theme

const darkWish = window.matchMedia("(prefers-color-scheme: dark)");
let theme = null;
try { theme = localStorage.getItem("theme"); } catch { /* storage may be off */ }

function paint() {
  const isDark = theme ? theme === "dark" : darkWish.matches;
  document.documentElement.classList.toggle("dark", isDark);
  at("theme").setAttribute("aria-pressed", String(isDark));
  soon();
}
at("theme").addEventListener("click", () => {
  theme = document.documentElement.classList.contains("dark") ? "light" : "dark";
  try { localStorage.setItem("theme", theme); } catch { /* storage may be off */ }
  paint();
});
darkWish.addEventListener("change", paint);
paint();

function named(hash) {
  return tabs.some((tab) => `#/${tab.getAttribute("aria-controls")}` === hash) ? hash.slice(2) : current;
}
open(named(location.hash));
