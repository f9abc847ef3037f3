// What can be done with datasets and snapshots.

import { parseSize } from "../lib/format.js";

const flag = (is, option) => (is ? option : null);
const options = (pairs) => pairs.flatMap(([property, value]) => ["-o", `${property}=${value}`]);
const datasetLink = (name) => `#/datasets/${name.split("/").map(encodeURIComponent).join("/")}`;

/** A name for a snapshot made now, as `2026-11-26-1430`. */
export function nowName(date = new Date()) {
  const two = (n) => String(n).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}-${two(date.getHours())}${two(date.getMinutes())}`;
}

function newProps(v) {
  const props = [];
  if (v.encryption !== "inherit") props.push(["encryption", v.encryption]);
  if (v.encryption !== "inherit" && v.encryption !== "off") props.push(["keysource", v.keysource === "file" ? `${v.keyFormat},file://${v.keyFile}` : v.keysource]);
  if (v.quota && v.kind === "filesystem") props.push(["quota", v.quota]);
  return props;
}

/** `c` is `{above, names}`: where the dataset is proposed, and which datasets there are. */
export const createDataset = {
  title: () => "Create a dataset",
  verb: "Create",
  fields: (c) => [
    { name: "name", label: "Name", value: c.above ? `${c.above}/` : "", required: true, hint: "The pool or dataset above, a slash, and the new name.", suggestions: c.names?.map((name) => `${name}/`).slice(0, 200) },
    { name: "kind", label: "Kind", kind: "select", value: "filesystem", options: [["filesystem", "File system"], ["volume", "Volume: a block device"]] },
    { name: "size", label: "Size", placeholder: "10G", required: true, when: (v) => v.kind === "volume" },
    { name: "sparse", label: "Reserve no space for it", kind: "check", when: (v) => v.kind === "volume" },
    { name: "encryption", label: "Encryption", kind: "select", value: "inherit", options: [["inherit", "As the dataset above, with its key"], ["on", "On, with a key of its own"], ["aes-256-gcm", "AES-256-GCM, with a key of its own"], ["off", "Off: anybody with the devices can read it"]] },
    { name: "keysource", label: "Key", kind: "select", value: "passphrase,prompt", options: [["passphrase,prompt", "A passphrase that is typed"], ["hex,prompt", "A key of 64 digits that is typed"], ["file", "A file on the machine of the daemon"]], when: (v) => v.encryption !== "inherit" && v.encryption !== "off" },
    { name: "keyFormat", label: "Form of the key in the file", kind: "select", value: "raw", options: [["raw", "Raw bytes"], ["hex", "Hexadecimal digits"], ["passphrase", "A passphrase"]], when: (v) => v.keysource === "file" && v.encryption !== "inherit" && v.encryption !== "off" },
    { name: "keyFile", label: "Path of the file", required: true, placeholder: "/etc/keys/name", when: (v) => v.keysource === "file" && v.encryption !== "inherit" && v.encryption !== "off" },
    { name: "quota", label: "Quota", placeholder: "none", hint: "The most space that it, its snapshots and all below may take, as 20G.", when: (v) => v.kind === "filesystem" },
  ],
  asks: (v) => {
    const own = v.encryption !== "inherit" && v.encryption !== "off";
    if (!own || v.keysource === "file") return [];
    return [{ dataset: v.name, format: v.keysource.split(",")[0], twice: true, isExpected: true }];
  },
  words: (v) => ["create", v.kind === "volume" && v.sparse && "-s", v.kind === "volume" && "-V", v.kind === "volume" && (v.size || "SIZE"), ...options(newProps(v)), v.name || "DATASET"],
  request: (v) => [
    "create",
    { name: v.name, props: newProps(v), parents: false, no_mount: false, dry_run: false, volume: v.kind === "volume" ? { size: size(v.size), sparse: v.sparse } : null },
  ],
  done: (v) => `${v.name} was created.`,
  next: (v) => datasetLink(v.name),
};

/** A size that the server refuses if it is none: the text then says what was wrong. */
function size(text) {
  return parseSize(text) ?? text;
}

/** `c` is `{dataset}`. */
export const createSnapshot = {
  title: () => "Take a snapshot",
  verb: "Take the snapshot",
  fields: () => [
    { name: "name", label: "Name of the snapshot", value: nowName(), required: true },
    { name: "recursive", label: "Of all datasets below too, at the same moment", kind: "check" },
  ],
  words: (v, c) => ["snapshot", flag(v.recursive, "-r"), `${c.dataset}@${v.name || "NAME"}`],
  request: (v, c) => ["snapshot", { names: [`${c.dataset}@${v.name}`], recursive: v.recursive }],
  done: (v, c) => `${c.dataset}@${v.name} was taken.`,
};

/** `c` is `{snapshot}`. */
export const rollback = {
  title: (c) => `Roll back to @${c.snapshot.split("@")[1]}`,
  text: () => "The dataset becomes what it was at the snapshot. Everything that was written since is lost.",
  verb: "Roll back",
  isDanger: true,
  fields: () => [
    { name: "recursive", label: "Destroy later snapshots", kind: "check", hint: "Needed if there are any." },
    { name: "force", label: "Unmount it even if it is in use", kind: "check" },
  ],
  confirm: (c) => c.snapshot.split("@")[0],
  words: (v, c) => ["rollback", flag(v.recursive, "-r"), flag(v.force, "-f"), c.snapshot],
  request: (v, c) => ["rollback", { name: c.snapshot, recursive: v.recursive, clones: false, force: v.force }],
  done: (v, c) => `Rolled back to ${c.snapshot}.`,
};

/** `c` is `{snapshot}`. */
export const cloneSnapshot = {
  title: (c) => `Clone @${c.snapshot.split("@")[1]}`,
  text: () => "A clone is a dataset that can be written and begins as the snapshot. It takes space only for what changes.",
  verb: "Clone",
  fields: (c) => [
    { name: "name", label: "Name of the clone", value: `${c.snapshot.split("@")[0]}-clone`, required: true },
    { name: "rekey", label: "New data keys for what is written to the clone", kind: "check" },
  ],
  words: (v, c) => ["clone", flag(v.rekey, "-K"), c.snapshot, v.name || "DATASET"],
  request: (v, c) => ["clone", { snapshot: c.snapshot, name: v.name, props: [], rekey: v.rekey, parents: false, no_mount: false }],
  done: (v) => `${v.name} was created.`,
  next: (v) => datasetLink(v.name),
};

/** `c` is `{name}`: a dataset or a snapshot. */
export const destroy = {
  title: (c) => (c.name.includes("@") ? "Destroy a snapshot" : "Destroy a dataset"),
  text: () => "Its contents are gone for ever.",
  verb: "Destroy",
  isDanger: true,
  fields: (c) => [
    { name: "recursive", label: c.name.includes("@") ? "Snapshots of this name of all datasets below too" : "With its snapshots and everything below", kind: "check" },
    !c.name.includes("@") && { name: "force", label: "Unmount it even if it is in use", kind: "check" },
  ].filter(Boolean),
  confirm: (c) => c.name,
  words: (v, c) => ["destroy", flag(v.recursive, "-r"), flag(v.force, "-f"), c.name],
  request: (v, c) => ["destroy", destroyBody(v, c, false)],
  preview: (v, c) => ["destroy", destroyBody(v, c, true)],
  done: (v, c) => `${c.name} was destroyed.`,
  next: (v, c) => (c.name.includes("@") ? undefined : "#/datasets"),
};

function destroyBody(v, c, dry_run) {
  return { name: c.name, recursive: v.recursive, clones: false, force: v.force ?? false, dry_run };
}

/** `c` is `{snapshot}`. */
export const hold = {
  title: () => "Hold a snapshot",
  text: () => "A snapshot that is held cannot be destroyed.",
  verb: "Hold",
  fields: () => [{ name: "tag", label: "Tag", value: "keep", required: true, hint: "The same tag releases it." }],
  words: (v, c) => ["hold", v.tag || "TAG", c.snapshot],
  request: (v, c) => ["hold", { names: [c.snapshot], tag: v.tag, recursive: false }],
  done: (v, c) => `${c.snapshot} is held.`,
};

/** `c` is `{snapshot, tags}`. */
export const release = {
  title: () => "Release a snapshot",
  verb: "Release",
  fields: (c) => [{ name: "tag", label: "Tag", kind: "select", value: c.tags[0], options: c.tags.map((tag) => [tag, tag]) }],
  words: (v, c) => ["release", v.tag, c.snapshot],
  request: (v, c) => ["release", { names: [c.snapshot], tag: v.tag, recursive: false }],
  done: (v, c) => `The hold '${v.tag}' on ${c.snapshot} was released.`,
};

/** `c` is `{dataset}`. */
export const mount = {
  title: (c) => `Mount ${c.dataset}`,
  verb: "Mount",
  fields: () => [],
  words: (v, c) => ["mount", c.dataset],
  request: (v, c) => ["mount", { name: c.dataset }],
  done: (v, c) => `${c.dataset} is mounted.`,
};

/** `c` is `{dataset}`. */
export const unmount = {
  title: (c) => `Unmount ${c.dataset}`,
  text: () => "Its files go out of reach until it is mounted again. Datasets mounted below it are unmounted too.",
  verb: "Unmount",
  fields: () => [{ name: "force", label: "Even if it is in use", kind: "check", hint: "Programs with open files get errors." }],
  words: (v, c) => ["unmount", flag(v.force, "-f"), c.dataset],
  request: (v, c) => ["unmount", { target: c.dataset, force: v.force }],
  done: (v, c) => `${c.dataset} is unmounted.`,
};

/** `c` is `{dataset, property, value, source, help, words}`. */
export const setProperty = {
  title: (c) => `Set ${c.property}`,
  text: (c) => c.help ?? [],
  verb: "Set",
  fields: (c) => [
    c.words
      ? { name: "value", label: "Value", kind: "select", value: String(c.value ?? c.words[0]), options: [...new Set([...c.words, String(c.value ?? c.words[0])])].map((word) => [word, word]) }
      : { name: "value", label: "Value", value: c.value === null || c.value === undefined ? "" : String(c.value), required: true },
  ],
  words: (v, c) => ["set", `${c.property}=${v.value}`, c.dataset],
  request: (v, c) => ["set", { names: [c.dataset], props: [[c.property, v.value]] }],
  done: (v, c) => `${c.property} of ${c.dataset} is ${v.value}.`,
};

/** `c` is `{dataset, property}`. */
export const inherit = {
  title: (c) => `Inherit ${c.property}`,
  text: () => "The value that was set here goes. The dataset above decides, or the default.",
  verb: "Inherit",
  words: (v, c) => ["inherit", c.property, c.dataset],
  request: (v, c) => ["inherit", { names: [c.dataset], prop: c.property, recursive: false }],
  done: (v, c) => `${c.property} of ${c.dataset} is inherited.`,
};

/** `c` is `{dataset, schedule}`. */
export const schedule = {
  title: () => "Schedule snapshots",
  text: () => "The daemon takes these snapshots, and destroys those of its own that are more than are kept. Datasets below inherit the schedule.",
  verb: "Set the schedule",
  fields: (c) => {
    const kept = parseSchedule(c.schedule);
    const kinds = KINDS.filter((kind) => OFFERED.includes(kind) || kept[kind]);
    const counts = kinds.map((kind) => ({ name: kind, label: LABELS[kind] ?? `Snapshots kept, one in ${kind}`, value: kept[kind] ? String(kept[kind]) : "", placeholder: "none", inputmode: "numeric" }));
    return [...counts, { name: "local", label: "Days and names in the local time of the machine, not in UTC", kind: "check", value: /,local$/.test(c.schedule ?? "") }];
  },
  words: (v, c) => ["set", `snapshot-schedule=${scheduleText(v)}`, c.dataset],
  request: (v, c) => ["set", { names: [c.dataset], props: [["snapshot-schedule", scheduleText(v)]] }],
  done: (v, c) => `The schedule of ${c.dataset} is ${scheduleText(v)}.`,
};

/** Kinds of snapshots that a schedule makes. */
export const KINDS = ["1min", "5min", "10min", "15min", "20min", "30min", "hourly", "daily", "weekly", "monthly", "yearly"];
const OFFERED = ["15min", "hourly", "daily", "weekly", "monthly", "yearly"];
const LABELS = { "15min": "Snapshots kept of each quarter of an hour", hourly: "Hourly snapshots kept", daily: "Daily snapshots kept", weekly: "Weekly snapshots kept", monthly: "Monthly snapshots kept", yearly: "Yearly snapshots kept" };

/** How many of each kind a schedule keeps. */
export function parseSchedule(text) {
  const pairs = String(text ?? "").split(",").map((part) => /^([a-z0-9]+):(\d+)$/.exec(part.trim()));
  return Object.fromEntries(pairs.filter(Boolean).map(([, kind, kept]) => [kind, Number(kept)]));
}

function scheduleText(v) {
  const parts = KINDS.filter((kind) => v[kind] && v[kind].trim() !== "" && v[kind].trim() !== "0").map((kind) => `${kind}:${v[kind].trim()}`);
  return parts.length ? [...parts, ...(v.local ? ["local"] : [])].join(",") : "none";
}
