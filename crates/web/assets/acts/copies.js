// What can be done with jobs that copy datasets.

import { parseSize } from "../lib/format.js";

/** `c` is `{name, source, target, …}`, a row of the list of jobs. */
const job = (verb, more = []) => (v, c) => ["replicate", verb, ...more.flatMap((words) => words(v)), c.name, c.source];
const body = (c) => ({ name: c.name, source: c.source });

/** Times between two runs, in seconds. */
const EVERY = [["900", "15 minutes", "15m"], ["3600", "1 hour", "1h"], ["21600", "6 hours", "6h"], ["86400", "1 day", "1d"], ["604800", "7 days", "7d"]];
const wordOf = (every) => EVERY.find(([seconds]) => seconds === every)[2];

/** `c` is `{datasets}`: the names that are proposed as source. */
export const addJob = {
  title: () => "Copy a dataset",
  text: () => "The daemon sends the snapshots that the target does not have, as they are sealed: no key is needed. A job makes no snapshots. Schedule them on the page of the dataset.",
  verb: "Add the job",
  fields: (c) => [
    { name: "name", label: "Name of the job", required: true, placeholder: "offsite" },
    { name: "source", label: "Dataset to copy", required: true, value: c.source ?? "", suggestions: c.datasets?.slice(0, 500) },
    { name: "target", label: "Target", required: true, placeholder: "backup/home", hint: "A dataset that does not exist yet, or an older copy; on another host ssh://USER@HOST/POOL/DATASET." },
    { name: "recursive", label: "Also the datasets below", kind: "check" },
    { name: "every", label: "Run every", kind: "select", value: "3600", options: EVERY.map(([seconds, words]) => [seconds, words]) },
    { name: "keep", label: "Snapshots that the copy keeps", placeholder: "all", hint: "As in a schedule: hourly:24,daily:30." },
    { name: "limit", label: "The most that is sent in a second", placeholder: "no limit", hint: "As 10M." },
    { name: "window", label: "Hours in which it runs", placeholder: "all", hint: "In the time of the machine, as 22:00-06:00." },
  ],
  words: (v) => [
    "replicate", "add", v.recursive && "-R", "--every", wordOf(v.every),
    ...[["--keep", v.keep], ["--limit", v.limit], ["--window", v.window]].flatMap(([option, value]) => (value ? [option, value] : [])),
    v.name || "JOB", v.source || "SOURCE", v.target || "TARGET",
  ],
  request: (v) => [
    "replicate-add",
    { name: v.name, source: v.source, target: v.target, every: Number(v.every), recursive: v.recursive, keep: v.keep || null, limit: v.limit ? (parseSize(v.limit) ?? v.limit) : null, window: v.window || null },
  ],
  done: (v) => `The job ${v.name} was added. It runs at once.`,
};

export const runJob = {
  title: (c) => `Run ${c.name} now`,
  text: (c) => `Sends what ${c.target} does not have.`,
  verb: "Run",
  isLong: "The job runs. You can close this: the page shows how far it is.",
  words: job("run"),
  request: (v, c) => ["replicate-run", { ...body(c), dry_run: false }],
  preview: (v, c) => ["replicate-run", { ...body(c), dry_run: true }],
  looked: (value) => wouldSend(value ?? []),
  done: (v, c) => `${c.name} has run.`,
};

function wouldSend(streams) {
  if (!streams.length) return "There is nothing to send: the copy has everything.";
  const names = streams.slice(0, 3).map((stream) => stream.name).join(", ");
  return `It would send ${names}${streams.length > 3 ? ` and ${streams.length - 3} more` : ""}.`;
}

export const verifyJob = {
  title: (c) => `Verify the copies of ${c.name}`,
  text: () => "Source and target compare the identities of their snapshots, and the target reads every record of its copies. The target needs no key.",
  verb: "Verify",
  isLong: "The copies are read. Leave the page open: the verification ends with it.",
  fields: () => [{ name: "newest", label: "Only the newest copy of each dataset", kind: "check" }],
  words: job("verify", [(v) => (v.newest ? ["--newest"] : [])]),
  request: (v, c) => ["replicate-verify", { ...body(c), newest: v.newest }],
  done: (v, c) => `The copies of ${c.name} were read. The page shows what was found.`,
};

const change = (word, more) => ({
  words: job(word),
  request: (v, c) => ["replicate-change", { ...body(c), change: word }],
  ...more,
});

export const pauseJob = change("pause", {
  title: (c) => `Pause ${c.name}`,
  text: () => "It does not run by itself until it is resumed. If it runs now, it stops, and what came is kept.",
  verb: "Pause",
  done: (v, c) => `${c.name} pauses.`,
});

export const resumeJob = change("resume", {
  title: (c) => `Resume ${c.name}`,
  text: (c) => (c.state === "not-accepted" ? `The job came with its pool from elsewhere. From now on it sends ${c.source} to ${c.target}, with the rights of ${c.owner}.` : "It runs by itself again, at once."),
  verb: "Resume",
  done: (v, c) => `${c.name} goes on.`,
});

export const removeJob = change("remove", {
  title: (c) => `Remove ${c.name}`,
  text: (c) => `The copy at ${c.target} stays, and gets nothing new. The bookmarks of the job in ${c.source} are destroyed.`,
  verb: "Remove",
  isDanger: true,
  confirm: (c) => c.name,
  done: (v, c) => `The job ${c.name} was removed.`,
});
