// Copies of datasets elsewhere: how far behind they are, and when it was last proved that they are whole.

import { ago, bytes, duration, percent } from "../lib/format.js";
import { stateOf } from "../lib/icons.js";
import { card, datasetLink, facts, head, notice, shown } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { addJob, pauseJob, removeJob, resumeJob, runJob, verifyJob } from "../acts/copies.js";

const STATES = { waiting: ["good", "Waiting for its time"], running: ["good", "Running"], paused: ["quiet", "Paused"], failed: ["bad", "The last run failed"], stopped: ["bad", "Stopped"], "not-accepted": ["warn", "Not accepted here"] };

export function copies(context) {
  const { store } = context;
  const datasets = (store.use("/v1/datasets?properties=used", "datasets").value ?? []).map((row) => row.name);
  return [
    head("Copies", "Datasets that are copied to another place by themselves.", context.button("Copy a dataset", addJob, { datasets })),
    shown(store.use("/v1/replications", "copies"), (rows) =>
      rows.length
        ? h("div", { class: "stack" }, rows.map((row) => jobView(context, row)))
        : card("Nothing is copied", {}, h("p", { class: "muted" }, "A job copies the snapshots of a dataset to another pool or host, again and again.")),
    ),
  ];
}

function jobView(context, job) {
  const [level, word] = STATES[job.state] ?? ["quiet", job.state];
  return h(
    "section",
    { class: "card", "aria-label": `The job ${visible(job.name)} of ${visible(job.source)}`, key: `${job.name}\n${job.source}` },
    h(
      "header",
      {},
      h("div", {}, h("h2", {}, name(job.name)), h("p", { class: "muted small" }, datasetLink(job.source), job.recursive && " and all below", " to ", name(job.target))),
      stateOf(isBehind(job) && level === "good" ? "warn" : level, isBehind(job) && level === "good" ? "Behind" : word),
    ),
    h("div", { class: "stack" }, job.error && notice("bad", visible(job.error)), job.step && progress(job), figures(job), buttons(context, job)),
  );
}

/** The rule of alerts: several runs did not bring the copy further. */
function isBehind(job) {
  return job.lag > 3600 + 3 * job.every;
}

function progress(job) {
  const label = `Progress of ${visible(job.name)}`;
  return h(
    "div",
    { class: "job" },
    job.state === "running" && h("progress", { max: Math.max(1, job.total), value: Math.min(job.sent, job.total), "aria-label": label }, percent(job.sent, job.total)),
    h("p", { class: "muted small" }, visible(job.step), job.state === "running" && `: ${bytes(job.sent)} of ${bytes(job.total)}, ${bytes(job.rate)} in a second`),
  );
}

function figures(job) {
  return facts(
    ["Lag", job.lag === 0 ? (job.newest ? "none: the copy has every snapshot" : "there is no snapshot to copy yet") : `${duration(job.lag)} behind`],
    ["Newest copy", job.newest ? ago(job.newest) : "there is none yet"],
    ["Last run", job.last_run ? ago(job.last_run) : "not since the daemon started"],
    ["Verified", check(job.verification, job.verification?.newest ? "the newest copies are whole" : "all copies are whole", "Never. Only a verification shows whether the copy is whole.")],
    job.attempt && ["Last attempt", check(job.attempt, "it found nothing out")],
    ["Restored", check(job.drill, "a drill found no difference", ["Never. Try it where the key is: ", h("code", {}, visible(`strongroom replicate drill ${job.name} ${job.source}`))])],
    ["Runs every", [duration(job.every), job.window && visible(`, from ${job.window.replace("-", " to ")}`), job.limit && `, at most ${bytes(job.limit)} in a second`]],
    ["The copy keeps", job.keep ? visible(job.keep) : "all snapshots"],
    ["Rights of", name(job.owner)],
  );
}

/** How a check ended. */
function check(row, good, never) {
  if (!row) return notice("warn", never);
  return row.failure ? notice("bad", `${ago(row.time)}: ${visible(row.failure)}`) : `${ago(row.time)}: ${good}`;
}

function buttons(context, job) {
  const button = (label, act) => context.button([label, h("span", { class: "unseen" }, ` ${visible(job.name)} of ${visible(job.source)}`)], act, job, { className: "button plain" });
  const rests = ["paused", "stopped", "not-accepted"].includes(job.state);
  return h("div", { class: "buttons" }, job.state !== "running" && job.state !== "not-accepted" && button("Run", runJob), rests ? button("Resume", resumeJob) : button("Pause", pauseJob), button("Verify", verifyJob), button("Remove", removeJob));
}
