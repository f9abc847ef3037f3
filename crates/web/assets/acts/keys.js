// What can be done with keys.

/** The secret that a key source asks a person for, if it does. */
export function askOf(dataset, keysource, twice = false) {
  const [format, place] = String(keysource).split(/,(.*)/s);
  if (place !== "prompt") return [];
  return [{ dataset, format: format === "raw" ? "key-file" : format, twice, isExpected: true }];
}

/** `c` is `{dataset, keysource}`, a dataset with a key of its own. */
export const loadKey = {
  title: (c) => `Load the key of ${c.dataset}`,
  text: (c) => (askOf(c.dataset, c.keysource).length ? "The key goes to the daemon, which keeps it in locked memory until it is unloaded." : `The daemon reads the key from its place: ${c.keysource}.`),
  verb: "Load the key",
  fields: () => [{ name: "recursive", label: "Also the keys of datasets below that need no typing", kind: "check" }],
  asks: (v, c) => askOf(c.dataset, c.keysource),
  words: (v, c) => ["key", "load", v.recursive && "-r", c.dataset],
  request: (v, c) => ["key-load", { names: [c.dataset], recursive: v.recursive, location: null, keysource: null, dry_run: false }],
  done: (v, c) => `The key of ${c.dataset} is loaded.`,
};

/** `c` is `{dataset, heirs}`, with how many datasets use the key. */
export const unloadKey = {
  title: (c) => `Unload the key of ${c.dataset}`,
  text: (c) => `Names and contents of ${c.heirs === 1 ? "the dataset" : `the ${c.heirs} datasets with this key`} go out of reach at once, and caches are wiped.`,
  verb: "Unload the key",
  isDanger: true,
  fields: () => [
    { name: "recursive", label: "Also the keys of datasets below", kind: "check" },
    { name: "force", label: "Unmount what is in use", kind: "check", hint: "Programs with open files get errors." },
  ],
  words: (v, c) => ["key", "unload", v.recursive && "-r", v.force && "-f", c.dataset],
  request: (v, c) => ["key-unload", { names: [c.dataset], recursive: v.recursive, force: v.force }],
  done: (v, c) => `The key of ${c.dataset} is unloaded.`,
};

/** `c` is `{dataset, keysource}`. */
export const changeKey = {
  title: (c) => `Change the key of ${c.dataset}`,
  text: () => "A new key or passphrase wraps the data keys. The data stays as it is: an old copy of the devices opens with the old key.",
  verb: "Change the key",
  isDanger: true,
  fields: (c) => [
    { name: "source", label: "New key", kind: "select", value: "keep", options: [["keep", `From the same place (${c.keysource})`], ["passphrase,prompt", "A passphrase that is typed"], ["hex,prompt", "A key of 64 digits that is typed"], ["file", "A file on the machine of the daemon"]] },
    { name: "format", label: "Form of the key in the file", kind: "select", value: "raw", options: [["raw", "Raw bytes"], ["hex", "Hexadecimal digits"], ["passphrase", "A passphrase"]], when: (v) => v.source === "file" },
    { name: "file", label: "Path of the file", required: true, placeholder: "/etc/keys/name", when: (v) => v.source === "file" },
  ],
  asks: (v, c) => askOf(c.dataset, newSource(v) ?? c.keysource, true),
  words: (v, c) => ["key", "change", ...(newSource(v) ? ["-o", `keysource=${newSource(v)}`] : []), c.dataset],
  request: (v, c) => ["key-change", { name: c.dataset, keysource: newSource(v), slot: null, only: false, inherit: false }],
  done: (v, c) => `The key of ${c.dataset} is another one now.`,
};

function newSource(v) {
  if (v.source === "keep") return null;
  return v.source === "file" ? `${v.format},file://${v.file}` : v.source;
}

/** `c` is `{dataset}`. */
export const rotateKey = {
  title: (c) => `Rotate the data keys of ${c.dataset}`,
  text: () => "New data keys seal everything that is written from now on. The passphrase or wrapping key stays.",
  verb: "Rotate",
  fields: () => [
    {
      name: "how",
      label: "Data that is stored already",
      kind: "select",
      value: "new",
      options: [["new", "Keeps its data keys"], ["reencrypt", "Is sealed again with the new keys, in the background"]],
    },
  ],
  words: (v, c) => ["key", "rotate", v.how === "reencrypt" && "--reencrypt", c.dataset],
  request: (v, c) => ["key-rotate", { name: c.dataset, how: v.how }],
  done: (v, c) => (v.how === "reencrypt" ? `The re-encryption of ${c.dataset} has begun.` : `${c.dataset} has new data keys.`),
};

/** `c` is `{dataset, how}`, with `pause` or `resume`. */
export const steerReencryption = {
  title: (c) => `${c.how === "pause" ? "Pause" : "Resume"} the re-encryption of ${c.dataset}`,
  verb: "Go on",
  words: (v, c) => ["key", "rotate", `--${c.how}`, c.dataset],
  request: (v, c) => ["key-rotate", { name: c.dataset, how: c.how }],
  done: (v, c) => `The re-encryption of ${c.dataset} ${c.how === "pause" ? "pauses" : "goes on"}.`,
};

/** `c` is `{dataset, slot, kind}`. */
export const removeSlot = {
  title: (c) => `Remove slot ${c.slot} of ${c.dataset}`,
  text: (c) => `The ${c.kind === "passphrase" ? "passphrase" : "key"} of this slot, or the recovery sheet, opens the dataset no more. An old copy of the devices still opens with it.`,
  verb: "Remove the slot",
  isDanger: true,
  fields: () => [{ name: "force", label: "Even if the key source of the dataset then opens nothing", kind: "check" }],
  confirm: (c) => c.dataset,
  words: (v, c) => ["key", "remove", v.force && "-f", c.dataset, String(c.slot)],
  request: (v, c) => ["key-remove", { name: c.dataset, slot: c.slot, keysource: null, force: v.force }],
  done: (v, c) => `Slot ${c.slot} of ${c.dataset} was removed.`,
};
