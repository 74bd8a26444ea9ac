// Where a recording is played: a slider over its time, a pause, a speed. The server plays it, for all pages that are open.
const at = (id) => document.getElementById(id);
const TICK_MS = 250;

export class Replay {
  constructor() {
    this.told = null;
    this.isDragged = false;
    at("replay-go").addEventListener("click", () => this.toggle());
    at("replay-speed").addEventListener("change", () => { if (!this.told.paused) this.ask({ speed: this.speed }); });
    at("replay-at").addEventListener("input", () => { this.isDragged = true; this.label(this.slider); });
    at("replay-at").addEventListener("change", () => { this.isDragged = false; this.jump(this.slider); });
    setInterval(() => this.show(), TICK_MS);
  }

  get slider() { return Number(at("replay-at").value); }
  get speed() { return Number(at("replay-speed").value); }

  // Seconds of the recording, as of now.
  get seconds() {
    const { seconds, paused, speed, duration, since } = this.told;
    const now = paused ? seconds : seconds + (performance.now() - since) / 1000 * speed;
    return duration === null ? now : Math.min(now, duration);
  }

  take(told) {
    const isFirst = !this.told;
    this.told = { ...told, since: performance.now() };
    at("replay").hidden = false;
    if (isFirst && !told.paused) this.offer(told.speed);
    this.show();
  }

  // The speed that was asked for when it was started may be none of those in the list.
  offer(speed) {
    const select = at("replay-speed");
    if (speed && ![...select.options].some((option) => Number(option.value) === speed)) {
      select.add(new Option(`${speed}×`, speed), 0);
    }
    if (speed) select.value = speed;
  }

  toggle() {
    const isAtEnd = this.told.duration !== null && this.seconds >= this.told.duration;
    if (!this.told.paused) this.ask({});
    else this.ask({ speed: this.speed, ...(isAtEnd ? { seconds: 0 } : {}) });
  }

  jump(seconds) {
    this.ask({ seconds, ...(this.told.paused ? {} : { speed: this.speed }) });
  }

  async ask(wanted) {
    try {
      await fetch(`replay?${new URLSearchParams(wanted)}`, { method: "POST" });
    } catch { /* the page says that it has lost its server */ }
  }

  show() {
    if (!this.told || this.isDragged) return;
    const slider = at("replay-at"), { duration, paused } = this.told;
    slider.max = duration ?? Math.max(this.seconds, 1);
    slider.disabled = duration === null;
    slider.value = this.seconds;
    const text = paused ? "Play" : "Pause";
    if (at("replay-go").textContent !== text) at("replay-go").textContent = text;
    this.label(this.seconds);
  }

  label(seconds) {
    const { at: wall, seconds: told, duration } = this.told;
    const clock = new Date((wall + seconds - told) * 1000).toLocaleTimeString();
    const text = `${span(seconds)}${duration === null ? "" : ` of ${span(duration)}`}, ${clock}`;
    at("replay-at").setAttribute("aria-valuetext", text);
    at("replay-moment").textContent = text;
  }
}

function span(seconds) {
  const whole = Math.floor(seconds), rest = String(whole % 60).padStart(2, "0"), minutes = Math.floor(whole / 60);
  return minutes < 60 ? `${minutes}:${rest}` : `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}
