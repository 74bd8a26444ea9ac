// When a task was submitted, ready, dispatched, began and ended, and how long it waited in between.
import { clock, seconds } from "./format.js";

const SHORTEST = 0.001;  // less is no wait: the scheduler works in turns, and a worker's clock times the run

// `known`: what the scheduler or a failure tells; `run`: when it began and how long it ran, from a sample; `place`: where
// it runs. Rows of a name and a text, which is empty if nothing is known.
export function moments(known, status, run, place, endedAt) {
  const { submitted, ready, dispatched } = known;
  const now = Date.now() / 1000;
  const begun = run?.begun ?? (known.lasted ? known.at - known.lasted : place ? known.begun || now - place.running : 0);
  const isFirst = (known.attempt ?? 1) <= 1;  // else an earlier attempt is part of the time
  const lasted = known.lasted || run?.lasted;
  return [
    ["Submitted", moment(submitted)],
    ["Ready", moment(ready, submitted, "for other tasks")],
    ["Waiting", status === "waiting" ? since(submitted, now) : ""],
    ["Queued", status === "queued" && isFirst ? since(ready || submitted, now) : ""],
    ["Dispatched", moment(dispatched, isFirst ? ready || submitted : 0, "in the queue")],
    ["At the worker", status === "dispatched" && !place ? since(dispatched, now) : ""],
    ["Began", place && !known.begun ? moment(begun) : moment(begun, dispatched, "at the worker")],
    ["Ran for", lasted ? seconds(lasted) : place ? since(begun, now) : ""],
    ["Ended", moment(endedAt)],
  ];
}

// A time of day, of another day with its date; and what the task had waited for since the moment before.
function moment(at, before, what) {
  if (!at) return "";
  const date = new Date(at * 1000);
  const day = date.toDateString() === new Date().toDateString() ? "" : `${date.toLocaleDateString()} `;
  const wait = before ? at - before : 0;
  return `${day}${clock(at)}${wait >= SHORTEST ? `, waited ${seconds(wait)} ${what}` : ""}`;
}

const since = (at, now) => (at ? `${seconds(now - at)} until now` : "");
