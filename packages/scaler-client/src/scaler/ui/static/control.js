// What an operator may have the scheduler do. Nothing is done before the box has asked once more.
const at = (id) => document.getElementById(id);

export class Control {
  constructor() {
    this.box = at("control-box");
    this.wanted = null;
    at("control-do").addEventListener("click", () => this.send());
    at("control-close").addEventListener("click", () => this.box.close());
  }

  allow(isAllowed) { document.body.classList.toggle("may-control", isAllowed); }

  // wanted: {do, id}; title is what the button says, text what will come of it, seconds what is offered for running tasks.
  ask(wanted, { title, text, seconds }) {
    this.wanted = wanted;
    at("control-title").textContent = title;
    at("control-text").textContent = text;
    at("control-seconds").value = seconds;
    at("control-do").textContent = title;
    at("control-close").textContent = "Do nothing";
    this.say("");
    at("control-form").hidden = false;
    this.box.showModal();
    at("control-close").focus();
  }

  task(id, name) {
    this.ask({ do: "cancel-task", id }, {
      title: "Cancel the task", seconds: 1,
      text: `Task ${name} ends, and so do the tasks that depend on it or that it has submitted. Its client gets CancelledError.`,
    });
  }

  client({ id, tasks }) {
    this.ask({ do: "cancel-client", id }, {
      title: "Cancel all its tasks", seconds: 1,
      text: `All unfinished tasks of client ${id} end, ${tasks} by its last status. The client gets CancelledError for each, and may submit more.`,
    });
  }

  worker({ id, name }) {
    this.ask({ do: "drain-worker", id }, {
      title: "Let the worker leave", seconds: 60,
      text: `Worker ${name} finishes what it runs, gives back the rest, and ends. What started it, such as a manager, may start another one.`,
    });
  }

  async send() {
    at("control-form").hidden = true;
    this.say("…");
    let text;
    try {
      const query = new URLSearchParams({ ...this.wanted, seconds: at("control-seconds").value });
      const response = await fetch(`control?${query}`, { method: "POST" });
      text = response.ok ? (await response.json()).text : await response.text();
    } catch {
      text = "scaler_ui does not answer";
    }
    this.say(text);
    at("control-close").textContent = "Close";
    at("control-close").focus();
  }

  say(text) { at("control-said").textContent = text; }
}
