// What can be done with pools and their devices.

/** `c` is `{pool, how}`, with `start`, `pause` or `stop`. */
export const scrub = {
  title: (c) => ({ start: `Scrub ${c.pool}`, pause: `Pause the scrub of ${c.pool}`, stop: `Stop the scrub of ${c.pool}` })[c.how],
  text: (c) =>
    ({
      start: "Reads everything that is stored, on all devices, compares checksums, and repairs what has another copy. It needs no key, and the pool stays in use.",
      pause: "It goes on from here when it is started again.",
      stop: "What it has repaired stays repaired. A later scrub begins from the start.",
    })[c.how],
  verb: "Go on",
  words: (v, c) => ["pool", "scrub", c.how === "pause" && "-p", c.how === "stop" && "-s", c.pool],
  request: (v, c) => ["pool-scrub", { pool: c.pool, stop: c.how === "stop", pause: c.how === "pause" }],
  done: (v, c) => ({ start: `The scrub of ${c.pool} has begun.`, pause: `The scrub of ${c.pool} pauses.`, stop: `The scrub of ${c.pool} has stopped.` })[c.how],
};

/** `c` is `{pool, device}`. */
export const replaceDevice = {
  title: () => "Replace a device",
  text: (c) => `Another device takes the place of ${c.device}. The daemon copies the data to it in the background.`,
  verb: "Replace",
  isDanger: true,
  fields: () => [
    { name: "new", label: "New device", required: true, placeholder: "/dev/sdc", hint: "A disk, a file, or an address of a device. It has to be as large as the old one." },
    { name: "force", label: "Overwrite what the new device holds", kind: "check" },
  ],
  confirm: (c) => c.pool,
  words: (v, c) => ["pool", "replace", v.force && "-f", c.pool, c.device, v.new || "NEW"],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { replace: { device: c.device, new: v.new, force: v.force } } }],
  done: (v, c) => `${v.new} takes the place of ${c.device}.`,
};

/** `c` is `{pool, device}`. */
export const attachDevice = {
  title: () => "Attach a mirror",
  text: (c) => `Another device gets the same data as ${c.device}. The daemon copies it in the background.`,
  verb: "Attach",
  fields: () => [
    { name: "new", label: "New device", required: true, placeholder: "/dev/sdc", hint: "A disk, a file, or an address of a device." },
    { name: "force", label: "Overwrite what the new device holds", kind: "check" },
  ],
  words: (v, c) => ["pool", "attach", v.force && "-f", c.pool, c.device, v.new || "NEW"],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { attach: { device: c.device, new: v.new, force: v.force } } }],
  done: (v) => `${v.new} is attached.`,
};

/** `c` is `{pool, device}`. */
export const detachDevice = {
  title: () => "Detach a device",
  text: (c) => `${c.device} leaves its mirror. The pool has one copy less of what it holds.`,
  verb: "Detach",
  isDanger: true,
  fields: () => [{ name: "force", label: "Even if the device in its place is incomplete", kind: "check" }],
  confirm: (c) => c.pool,
  words: (v, c) => ["pool", "detach", v.force && "-f", c.pool, c.device],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { detach: { device: c.device, force: v.force } } }],
  done: (v, c) => `${c.device} is detached.`,
};

/** `c` is `{pool, device}`. */
export const takeOffline = {
  title: () => "Take a device offline",
  text: (c) => `The pool leaves ${c.device} alone until it is taken back, and has one copy less.`,
  verb: "Take offline",
  isDanger: true,
  fields: () => [{ name: "temporary", label: "Only until the next import", kind: "check" }],
  words: (v, c) => ["pool", "offline", v.temporary && "-t", c.pool, c.device],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { offline: { device: c.device, temporary: v.temporary } } }],
  done: (v, c) => `${c.device} is offline.`,
};

/** `c` is `{pool, device}`. */
export const takeOnline = {
  title: () => "Take a device back",
  text: (c) => `The pool uses ${c.device} again, and copies to it what was written meanwhile.`,
  verb: "Take it back",
  words: (v, c) => ["pool", "online", c.pool, c.device],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { online: { device: c.device, expand: false } } }],
  done: (v, c) => `${c.device} is online.`,
};

/** `c` is `{pool}`. */
export const clearFailures = {
  title: (c) => `Clear the failures of ${c.pool}`,
  text: () => "Forgets what devices failed, and tries again what failed. A pool that was suspended goes on if its devices work.",
  verb: "Clear",
  words: (v, c) => ["pool", "clear", c.pool],
  request: (v, c) => ["pool-devices", { pool: c.pool, change: { clear: { device: null } } }],
  done: (v, c) => `The failures of ${c.pool} are cleared.`,
};

/** `c` is `{pool}`. */
export const exportPool = {
  title: (c) => `Export ${c.pool}`,
  text: () => "Unmounts its datasets, forgets their keys and lets go of its devices. Another machine, or 'pool import', can then take it.",
  verb: "Export",
  isDanger: true,
  fields: () => [{ name: "force", label: "Unmount what is in use", kind: "check" }],
  confirm: (c) => c.pool,
  words: (v, c) => ["pool", "export", v.force && "-f", c.pool],
  request: (v, c) => ["pool-export", { pool: c.pool, force: v.force }],
  done: (v, c) => `${c.pool} is exported.`,
  next: () => "#/pools",
};

/** Imports a pool by name. */
export const importPool = {
  title: () => "Import a pool",
  text: () => "The daemon looks for the devices of the pool, and mounts what mounts by itself.",
  verb: "Import",
  fields: () => [
    { name: "pool", label: "Name of the pool", required: true },
    { name: "search", label: "Where its devices are", placeholder: "the usual places", hint: "A directory, a disk or a file on the machine of the daemon." },
    { name: "force", label: "Import it even if another machine may use it", kind: "check", hint: "Two machines that write to one pool destroy it." },
  ],
  words: (v) => ["pool", "import", v.force && "-f", ...(v.search ? ["-d", v.search] : []), v.pool || "POOL"],
  request: (v) => ["pool-import", { search: v.search ? [v.search] : [], pool: v.pool, new_name: null, read_only: false, force: v.force, no_mount: false, load_keys: false, without_logs: false }],
  done: (v) => `${v.pool} is imported.`,
};
