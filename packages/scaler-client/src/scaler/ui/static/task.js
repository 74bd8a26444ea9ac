// A task's page: all that is known of one task, from what was heard, and why it waits, which the scheduler is asked.
import { memoryText } from "./errors.js";
import { bytes, clock, element, seconds, taskName } from "./format.js";
import { STATES_EXPLAINED } from "./tables.js";

const [FUNCTION, WORKER, PROCESS, BEGUN, LASTED, STATUS] = [1, 2, 3, 4, 5, 6];
const RELATIVES_SHOWN = 12;
const at = (id) => document.getElementById(id);

export class TaskPage {
  constructor(page, graphs, control) {
    this.page = page;
    this.graphs = graphs;
    this.box = at("task-page");
    at("task-close").addEventListener("click", () => this.box.close());
    at("task-stack-ask").addEventListener("click", () => this.stack(this.task));
    at("task-cancel").addEventListener("click", () => control.task(this.task, taskName(this.task)));
    this.box.addEventListener("click", (event) => { if (event.target === this.box) this.box.close(); });
  }

  open(task) {
    this.task = task;
    at("task-title").textContent = `Task ${taskName(task)}`;
    at("task-id").textContent = task;
    showStack("", "");
    this.show();
    if (!this.box.open) this.box.showModal();
    this.explain(task);
  }

  show() {
    const { task } = this;
    const run = this.page.stream.runs.findLast((one) => one[0] === task);
    const attempts = this.page.failures.filter((one) => one.task === task);
    const failure = attempts.at(-1);
    const place = this.placeOf(task);
    const graph = this.graphOf(task);
    const status = failure?.status ?? run?.[STATUS] ?? place?.state ?? graph?.state ?? "";
    rows(at("task-facts"), [
      ["Function", failure?.function ?? run?.[FUNCTION] ?? graph?.name], ["Status", status, STATES_EXPLAINED[status]],
      ["User", failure?.user], ["Client", failure?.client ?? graph?.client],
      ["Worker", failure?.worker || run?.[WORKER] || place?.worker],
      ["Processor", run?.[PROCESS] || place?.pid], ["Attempt", failure?.attempt],
      ["Began", begun(run, failure, place)], ["Ran for", ran(run, failure, place)],
      ["Ended", failure ? clock(failure.at) : run ? clock(run[BEGUN] + run[LASTED]) : ""],
      ["Processor time", failure?.lasted ? seconds(failure.cpu) : ""],
      ["Memory at most", failure?.lasted ? memoryText(failure.memory) : ""],
      ["Arguments", failure ? bytes(failure.arguments) : ""],
    ]);
    this.showError(failure);
    this.list("task-attempts", "Earlier attempts", (failure?.accounts ?? []).map((one) => element("li", one)));
    this.list("task-needs", "Needs", (graph?.needs ?? []).map((one) => this.link(one)));
    this.list("task-followers", "Needed by", (graph?.followers ?? []).map((one) => this.link(one)));
    this.list("task-parent", "Submitted by", failure?.parent ? [this.link({ task: failure.parent })] : []);
    at("task-unknown").hidden = Boolean(status);
    at("task-stack-ask").hidden = !place;
    at("task-cancel").hidden = Boolean(run || failure);  // it has ended
  }

  showError(failure) {
    at("task-error").hidden = !failure;
    if (!failure) return;
    at("task-error-line").textContent = [failure.type || failure.status, failure.line].filter(Boolean).join(": ");
    at("task-traceback").textContent = failure.text
      || "The traceback is shown where the scheduler was started with --monitor-texts. The client that submitted the task has it.";
    at("task-traceback").className = failure.text ? "log" : "note";
  }

  list(id, title, items) {
    const place = at(id);
    const more = items.length > RELATIVES_SHOWN ? [element("li", `and ${items.length - RELATIVES_SHOWN} more`)] : [];
    place.hidden = !items.length;
    const own = element("ul");
    own.append(...items.slice(0, RELATIVES_SHOWN), ...more);
    place.replaceChildren(element("h3", title), own);
  }

  link({ task, name, state }) {
    const item = element("li");
    const button = element("button", [name, taskName(task), state].filter(Boolean).join(", "), { type: "button", class: "link" });
    button.addEventListener("click", () => this.open(task));
    item.append(button);
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
      const told = ([id, name, state]) => ({ task: id, name, state });
      const followers = nodes.filter((node) => node[3].includes(index)).map(told);
      return { ...told(nodes[index]), client, needs: nodes[index][3].map((one) => told(nodes[one])), followers };
    }
    return null;
  }

  async explain(task) {
    const place = at("task-explanation");
    if (document.body.classList.contains("report")) return;  // no scheduler answers there
    place.textContent = "…";
    let answer;
    try {
      const response = await fetch(`explain?task=${encodeURIComponent(task)}`);
      answer = response.ok ? (await response.json()).text : await response.text();
    } catch {
      answer = "scaler_ui does not answer";
    }
    if (this.task === task) place.textContent = answer;
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

function begun(run, failure, place) {
  if (run) return clock(run[BEGUN]);
  if (failure?.lasted) return clock(failure.at - failure.lasted);
  return place ? clock(Date.now() / 1000 - place.running) : "";
}

function ran(run, failure, place) {
  if (failure?.lasted) return seconds(failure.lasted);
  if (run) return seconds(run[LASTED]);
  return place ? `${seconds(place.running)} until now` : "";
}

function rows(place, pairs) {
  place.replaceChildren(...pairs.filter(([, value]) => value !== undefined && value !== "" && value !== 0).map(([name, value, tip]) => {
    const box = element("div");
    box.append(element("dt", name), element("dd", String(value), tip ? { title: tip } : {}));
    return box;
  }));
}
