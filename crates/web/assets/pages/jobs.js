// Work in the background.

import { ago, bytes, count, duration, percent } from "../lib/format.js";
import { h, name, visible } from "../lib/view.js";
import { stateOf } from "../lib/icons.js";

const NAMES = { scrub: "Scrub", resilver: "Resilver", removal: "Removal of a device", trim: "Trim", initialize: "Initialization", "luks-reencryption": "Re-encryption of a container", reencryption: "Re-encryption" };
const STATES = { running: ["good", "Running"], finished: ["good", "Finished"], stopped: ["quiet", "Stopped"], paused: ["quiet", "Paused"], stopping: ["warn", "Stopping"] };

/** Does what a job offers: to be paused or stopped. */
function steer(kind, verb, { command, body }) {
  return {
    title: (c) => `${verb} the ${(NAMES[c.kind] ?? c.kind).toLowerCase()}`,
    verb,
    isDanger: kind === "cancel",
    words: () => wordsOf(command, body),
    request: () => [command, body],
    done: () => (kind === "cancel" ? "It stops." : "It pauses."),
  };
}

function wordsOf(command, body) {
  if (command === "pool-scrub") return ["pool", "scrub", body.stop && "-s", body.pause && "-p", body.pool];
  if (command === "pool-sweep") return ["pool", body.what, body.stop ? "-c" : body.pause && "-s", body.pool, body.device];
  if (command === "pool-devices") return ["pool", "remove", "-s", body.pool];
  return [command.replace("-", " "), ...Object.values(body).filter((value) => typeof value === "string")];
}

/** A job with its progress. */
export function jobView(context, job) {
  const title = NAMES[job.kind] ?? job.kind;
  const [level, word] = STATES[job.state] ?? ["quiet", job.state];
  const isNow = ["running", "paused", "stopping"].includes(job.state);
  const label = `${title}${job.pool ? ` of ${job.pool}` : ""}`;
  return h(
    "article",
    { class: "job", key: job.id, "aria-label": label },
    h(
      "div",
      { class: "line-1" },
      h("h3", {}, title, job.pool && [" of ", name(job.pool)]),
      stateOf(job.errors ? "warn" : level, word),
    ),
    isNow && h("progress", { max: Math.max(1, job.total), value: Math.min(job.done, job.total), "aria-label": label }, percent(job.done, job.total)),
    h("p", { class: "muted small" }, isNow ? progress(job) : ended(job)),
    job.waits && h("p", { class: "small" }, visible(job.waits)),
    isNow &&
      (job.pause || job.cancel) &&
      h("div", { class: "buttons" }, job.pause && context.button("Pause", steer("pause", "Pause", job.pause), job), job.cancel && context.button("Stop", steer("cancel", "Stop", job.cancel), job)),
  );
}

function amount(job, n) {
  return job.unit === "bytes" ? bytes(n) : count(n);
}

function progress(job) {
  const seconds = Date.now() / 1000 - job.started;
  const left = job.state === "running" && job.done > 0 && seconds > 3 ? (seconds * (job.total - job.done)) / job.done : null;
  return [
    `${percent(job.done, job.total)}: ${amount(job, job.done)} of ${amount(job, job.total)}`,
    left !== null && left > 0 && `about ${duration(left)} left`,
    job.errors > 0 && `${count(job.errors)} errors`,
  ]
    .filter(Boolean)
    .join(" · ");
}

function ended(job) {
  return [job.ended ? `${ago(job.ended)}, after ${duration(job.ended - job.started)}` : null, `${amount(job, job.done)} ${["scrub", "resilver"].includes(job.kind) ? "read" : "done"}`, job.errors > 0 ? `${count(job.errors)} errors` : "no errors"].filter(Boolean).join(" · ");
}
