// What workers did with their time, in words and shares.
import { percent, seconds } from "./format.js";

export const USES = [
  ["ran", "Ran a task"], ["blocked", "Waited for tasks of their own task"], ["starting", "Started a processor"],
  ["silent", "Silent"], ["queued", "Idle while tasks were queued"], ["unable", "Idle: no queued task could run there"],
  ["waiting", "Idle: all tasks waited for others"], ["nothing", "Idle: there was no task"],
];

export const worked = (use) => USES.reduce((sum, [key]) => sum + use[key], 0);

// Shares of all seconds of all workers that were watched; what never happened is left out.
export function uses(use) {
  const all = worked(use);
  if (!all) return [["Worker-seconds", "none yet"]];
  const shares = USES.filter(([key]) => use[key] > 0).map(([key, text]) => [text, percent(use[key] / all)]);
  return [["Worker-seconds, all together", seconds(all)], ...shares, ["Processor time, of all worker-seconds", percent(use.cpu / all)]];
}
