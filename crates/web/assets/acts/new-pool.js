// Making a pool, and adding devices to one, with a picture of what it can lose.

import { parseSize } from "../lib/format.js";
import { layoutPicture } from "../lib/layout.js";

const LAYOUTS = [
  ["mirror", "Mirrors: each disk of a group has a copy"],
  ["raidz1", "RAID-Z1: any one disk of a group may fail"],
  ["raidz2", "RAID-Z2: any two disks of a group may fail"],
  ["raidz3", "RAID-Z3: any three disks of a group may fail"],
  ["single", "Single disks: none may fail"],
];
const PARITY = { mirror: 0, raidz1: 1, raidz2: 2, raidz3: 3, single: 0 };
// The disks of a group that are proposed.
const WIDTH = { mirror: "2", raidz1: "3", raidz2: "6", raidz3: "8", single: "1" };
const isGrouped = (v) => v.layout !== "single";

/** A disk without a slash is one in /dev, as on the command line. */
const pathOf = (word) => (/^[^/:]+$/.test(word) ? `/dev/${word}` : word);
const pathsOf = (text) => String(text ?? "").split(/[\n\s]+/).filter(Boolean).map(pathOf);

/** Devices in groups of one width; the last group has the rest. */
function groupsOf(v) {
  const devices = pathsOf(v.devices);
  const width = v.layout === "single" ? 1 : Math.max(1, Number.parseInt(v.width || WIDTH[v.layout], 10) || 1);
  const groups = [];
  for (let at = 0; at < devices.length; at += width) groups.push({ devices: devices.slice(at, at + width), parity: PARITY[v.layout] });
  return groups;
}

function groupWords(groups) {
  return groups.flatMap(({ devices, parity }) => [parity ? `raidz${parity}` : devices.length > 1 && "mirror", ...devices]);
}

const layoutFields = (unused) => [
  { name: "layout", label: "Layout", kind: "select", value: "mirror", options: LAYOUTS },
  { name: "devices", label: "Devices, one in a line", kind: "lines", required: true, placeholder: "/dev/sdb\n/dev/sdc", hint: "Disks, files, or addresses of devices on the machine of the daemon." },
  { name: "width", label: "Devices in a group", placeholder: "2, or 3, 6 and 8 with parity", inputmode: "numeric", when: isGrouped },
  ...unused,
];

const sizeOf = (v) => (v.size ? (parseSize(v.size) ?? v.size) : null);

function props(v) {
  const all = [];
  if (v.mountpoint) all.push(["mountpoint", v.mountpoint]);
  if (v.encryption === "on") all.push(["encryption", "on"], ["keysource", "passphrase,prompt"]);
  return all;
}

function newPool(v, dry_run) {
  return ["pool-create", { pool: v.name, devices: { groups: groupsOf(v), logs: [], caches: [], spares: pathsOf(v.spares) }, size: sizeOf(v), force: v.force, props: props(v), dry_run }];
}

export const createPool = {
  title: () => "Create a pool",
  text: () => "The devices are overwritten. Whether the root dataset is encrypted cannot change later; datasets below it can choose differently.",
  verb: "Create",
  fields: () => [
    { name: "name", label: "Name", required: true, placeholder: "tank" },
    ...layoutFields([
      { name: "spares", label: "Spares", placeholder: "none", hint: "Devices that take the place of one that fails." },
      { name: "size", label: "Create the devices as files of this size", placeholder: "they exist", hint: "As 4G." },
    ]),
    { name: "encryption", label: "Encryption of the root dataset", kind: "select", value: "on", options: [["on", "On, with a passphrase"], ["off", "Off: anybody with the devices can read it"]] },
    { name: "mountpoint", label: "Mountpoint", placeholder: "/NAME", hint: "A directory, or 'none'." },
    { name: "force", label: "Overwrite what the devices hold, and accept groups of different redundancy", kind: "check" },
  ],
  asks: (v) => (v.encryption === "on" ? [{ dataset: v.name, format: "passphrase", twice: true, isExpected: true }] : []),
  picture: (v) => layoutPicture({ groups: groupsOf(v), spares: pathsOf(v.spares), size: parseSize(v.size ?? "") }),
  words: (v) => [
    "pool", "create", v.force && "-f", ...(v.size ? ["-s", v.size] : []), ...(v.mountpoint ? ["-m", v.mountpoint] : []),
    ...props(v).filter(([name]) => name !== "mountpoint").flatMap(([name, value]) => ["-O", `${name}=${value}`]),
    v.name || "POOL", ...(v.devices ? groupWords(groupsOf(v)) : ["DEVICE"]), ...(v.spares ? ["spare", ...pathsOf(v.spares)] : []),
  ],
  request: (v) => newPool(v, false),
  preview: (v) => (v.name && v.devices ? newPool(v, true) : null),
  looked: () => "The devices were looked at: the pool can be created.",
  done: (v) => `${v.name} was created.`,
  next: (v) => `#/pools/${encodeURIComponent(v.name)}`,
};

const USES = [["data", "Data: more space"], ["log", "Log: writes that programs wait for are faster"], ["cache", "Cache: encrypted copies of records; it can be lost"], ["spare", "Spare: takes the place of a device that fails"]];
const hasLayout = (v) => v.use === "data" || v.use === "log";

function added(v) {
  const devices = { groups: [], logs: [], caches: [], spares: [] };
  if (v.use === "data") devices.groups = groupsOf(v);
  else if (v.use === "log") devices.logs = groupsOf(v);
  else devices[v.use === "cache" ? "caches" : "spares"] = pathsOf(v.devices);
  return devices;
}

const addition = (v, c, dry_run) => ["pool-devices", { pool: c.pool, change: { add: { devices: added(v), force: v.force, dry_run } } }];

/** `c` is `{pool}`. */
export const addDevices = {
  title: (c) => `Add devices to ${c.pool}`,
  text: () => "The devices are overwritten. Data that is stored already stays where it is.",
  verb: "Add",
  isDanger: true,
  fields: () => [
    { name: "use", label: "Use", kind: "select", value: "data", options: USES },
    ...layoutFields([]).map((field) => ({ ...field, when: field.name === "devices" ? undefined : (v) => hasLayout(v) && (field.when?.(v) ?? true) })),
    { name: "force", label: "Overwrite what the devices hold, and accept groups of different redundancy", kind: "check" },
  ],
  confirm: (c) => c.pool,
  picture: (v) => layoutPicture(hasLayout(v) ? { groups: groupsOf(v), isLog: v.use === "log" } : { [v.use === "cache" ? "caches" : "spares"]: pathsOf(v.devices) }),
  words: (v, c) => ["pool", "add", v.force && "-f", c.pool, v.use !== "data" && v.use, ...(v.devices ? (hasLayout(v) ? groupWords(groupsOf(v)) : pathsOf(v.devices)) : ["DEVICE"])],
  request: (v, c) => addition(v, c, false),
  preview: (v, c) => (v.devices ? addition(v, c, true) : null),
  looked: () => "The devices were looked at: they can be added.",
  done: (v, c) => `The devices were added to ${c.pool}.`,
};
