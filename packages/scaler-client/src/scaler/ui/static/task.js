// A task's page: all that is known of one task, from what was heard, and why it waits, which the scheduler is asked.
import { memoryText } from "./errors.js";
import { bytes, clock, element, seconds, taskName } from "./format.js";
import { moments } from "./moments.js";
import { STATES_EXPLAINED } from "./tables.js";

const [FUNCTION, WORKER, PROCESS, BEGUN, LASTED, STATUS] = [1, 2, 3, 4, 5, 6];
const RELATIVES_SHOWN = 12;
const at = (id) => document.getElementById(id);

export class TaskPage {
  constructor(page, graphs, control) {
    this.page = page;
    this.graphs = graphs;
    this.box = at("task-page");
    this.asked = 0;
    at("task-close").addEventListener("click", () => this.box.close());
    at("task-stack-ask").addEventListener("click", () => this.stack(this.task));
    at("task-cancel").addEventListener("click", () => control.task(this.task, taskName(this.task)));
    this.box.addEventListener("click", (event) => { if (event.target === this.box) this.box.close(); });
  }

  open(task) {
    this.task = task;
    this.told = {};  // what the scheduler has answered
    this.isGone = false;  // the scheduler does not hold it any more
    at("task-title").textContent = `Task ${taskName(task)}`;
    at("task-id").textContent = task;
    showStack("", "");
    at("task-explanation").textContent = "…";
    this.state = this.show();
    if (!this.box.open) this.box.showModal();
    this.explain(task);
  }

  // There is news. The scheduler is asked again only when the task has come to another state.
  refresh() {
    if (!this.box.open) return;
    const before = this.state;
    this.state = this.show();
    if (this.state !== before) this.explain(this.task);
  }

  // All but what the scheduler answers; returns the state of the task. Elements stay, so that focus and selection do.
  show() {
    const { task } = this;
    const run = this.page.stream.runs.findLast((one) => one[0] === task);
    const attempts = this.page.failures.filter((one) => one.task === task);
    const told = this.told ?? {};
    const hasFailed = this.isGone && told.status && told.status !== "success";
    const failure = attempts.at(-1) ?? (hasFailed ? told : undefined);
    const known = failure ?? told;
    const place = this.placeOf(task);
    const graph = this.graphOf(task);
    const status = failure?.status ?? run?.[STATUS] ?? place?.state ?? graph?.state ?? told.status ?? "";
    rows(at("task-facts"), [
      ["Key", known.key || graph?.key],
      ["Function", failure?.function ?? run?.[FUNCTION] ?? graph?.name ?? told.function], ["Status", status, STATES_EXPLAINED[status]],
      ["User", known.user], ["Client", known.client ?? graph?.client],
      ["Worker", failure?.worker || run?.[WORKER] || place?.worker || told.worker],
      ["Processor", run?.[PROCESS] || place?.pid], ["Attempt", known.attempt],
      ...moments(known, status, run && { begun: run[BEGUN], lasted: run[LASTED] }, place,
        failure?.at ?? (run ? run[BEGUN] + run[LASTED] : told.at)),
      ["Processor time", known.lasted ? seconds(known.cpu) : ""],
      ["Memory at most", known.lasted ? memoryText(known.memory) : ""],
      ["Arguments", known.arguments ? bytes(known.arguments) : ""],
      ["Result", known.result ? bytes(known.result) : known.stored ? "in the object storage" : ""],
    ]);
    this.showError(failure);
    this.list("task-attempts", "Earlier attempts", (known.accounts ?? []).map((text) => ({ text })));
    this.list("task-needs", "Needs", graph?.needs ?? []);
    this.list("task-followers", "Needed by", graph?.followers ?? []);
    this.list("task-parent", "Submitted by", known.parent ? [{ task: known.parent }] : []);
    this.list("task-children", "Has submitted", told.children ?? [], told.childCount);
    at("task-unknown").hidden = Boolean(status);
    hide(at("task-stack-ask"), !place);
    hide(at("task-cancel"), Boolean(run || failure || this.isGone));  // it has ended
    return status;
  }

  showError(failure) {
    at("task-error").hidden = !failure;
    if (!failure) return;
    write(at("task-error-line"), [failure.type || failure.status, failure.line].filter(Boolean).join(": "));
    write(at("task-traceback"), failure.text
      || "There is no traceback here. A process that died has none. Those of exceptions are shown if the scheduler was started with --monitor-texts; the client that submitted the task always has them.");
    at("task-traceback").className = failure.text ? "log" : "note";
  }

  // `items`: texts, or tasks that open.
  list(id, title, items, count = items.length) {
    const place = at(id);
    const shown = items.slice(0, RELATIVES_SHOWN);
    if (count > shown.length) shown.push({ text: `and ${count - shown.length} more` });
    place.hidden = !items.length;
    if (place.dataset.tasks === JSON.stringify(shown.map((one) => one.task))) {
      shown.forEach((one, index) => write(place.querySelectorAll("li > *")[index], wordsOf(one)));
      return;
    }
    place.dataset.tasks = JSON.stringify(shown.map((one) => one.task));
    const own = element("ul");
    own.append(...shown.map((one) => this.item(one)));
    place.replaceChildren(element("h3", title), own);
  }

  item(one) {
    const item = element("li");
    const inner = one.task ? element("button", wordsOf(one), { type: "button", class: "link" }) : element("span", wordsOf(one));
    if (one.task) inner.addEventListener("click", () => this.open(one.task));
    item.append(inner);
    return item;
  }

  // Where it runs, by what its worker said last.
  placeOf(task) {
    for (const worker of this.page.status.workers ?? []) {
      for (const [pid, state, , , id, running] of worker.processors) {
        if (id === task) return { worker: worker.name, pid, running, state: state === 3 ? "blocked" : "running" };
      }
    }
    return null;
  }

  graphOf(task) {
    for (const { client, nodes } of this.graphs()) {
      const index = nodes.findIndex((node) => node[0] === task);
      if (index < 0) continue;
      const told = ([id, name, state, , key]) => ({ task: id, name, state, key });
      const followers = nodes.filter((node) => node[3].includes(index)).map(told);
      return { ...told(nodes[index]), client, needs: nodes[index][3].map((one) => told(nodes[one])), followers };
    }
    return null;
  }

  async explain(task) {
    if (document.body.classList.contains("report")) return;  // no scheduler answers there
    const number = ++this.asked;
    let told;
    try {
      const response = await fetch(`explain?task=${encodeURIComponent(task)}`);
      told = response.ok ? await response.json() : { text: await response.text() };
    } catch {
      told = { text: "scaler_ui does not answer" };
    }
    if (this.asked !== number) return;  // of another task, or of a moment before
    write(at("task-explanation"), told.text);
    this.isGone = Boolean(told.task) && !told.state;
    this.told = told.facts ?? {};
    if (this.box.open) this.state = this.show();
  }

  // Where a running task is in its code at this moment.
  async stack(task) {
    showStack("", "…");
    let told;
    try {
      const response = await fetch(`stack?task=${encodeURIComponent(task)}`);
      told = response.ok ? await response.json() : { text: "", reason: await response.text() };
    } catch {
      told = { text: "", reason: "scaler_ui does not answer" };
    }
    if (this.task === task) showStack(told.text, told.reason || `Taken at ${clock(Date.now() / 1000)} on worker ${told.worker}.`);
  }
}

function showStack(text, note) {
  at("task-stack").textContent = text;
  at("task-stack").hidden = !text;
  at("task-stack-note").textContent = note;
}

function rows(place, pairs) {
  const known = pairs.filter(([, value]) => value !== undefined && value !== "" && value !== 0);
  const names = known.map(([name]) => name).join();
  if (place.dataset.names !== names) {
    place.dataset.names = names;
    place.replaceChildren(...known.map(([name]) => {
      const box = element("div");
      box.append(element("dt", name), element("dd"));
      return box;
    }));
  }
  known.forEach(([, value, tip], index) => {
    const cell = place.children[index].lastChild;
    write(cell, String(value));
    cell.title = tip ?? "";
  });
}

const wordsOf = ({ text, task, key, name, state }) => text ?? [key || name, taskName(task), state].filter(Boolean).join(", ");

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

// The focus is never on a button that is not there.
function hide(button, isHidden) {
  if (isHidden && document.activeElement === button) at("task-close").focus();
  button.hidden = isHidden;
}
