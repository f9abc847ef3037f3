// Keys: which dataset has its key from which, what is loaded, how old data keys are, and re-encryption.

import { query } from "../lib/api.js";
import { ago, bytes, count, plural } from "../lib/format.js";
import { icon, stateOf } from "../lib/icons.js";
import { card, datasetLink, head, keyState, prop, shown } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { changeKey, loadKey, removeSlot, rotateKey, steerReencryption, unloadKey } from "../acts/keys.js";

const PATH = query("/v1/datasets", { properties: "encryption,rekeydate,reencryption" });
// Datasets with the key of another one that are shown before they are folded.
const HEIRS = 12;

export function keys(context) {
  const { store } = context;
  const rows = store.use("/v1/keys", "keys");
  const details = new Map((store.use(PATH, "datasets").value ?? []).map((dataset) => [dataset.name, dataset]));
  return [
    head("Keys", "Each dataset with a key of its own, and below it the datasets that inherit the key."),
    shown(rows, (all) =>
      all.length
        ? h("div", { class: "stack" }, summary(all), reencryptions(context, details), card("Key tree", {}, tree(context, all, details)))
        : card("No dataset is encrypted", {}, h("p", { class: "muted" }, "A dataset is encrypted from its creation on: ", h("code", {}, "strongroom create -o encryption=on tank/home"))),
    ),
  ];
}

function summary(all) {
  const roots = all.filter(isRoot);
  const loaded = roots.filter(isLoaded).length;
  return card(
    "At a glance",
    {},
    h(
      "dl",
      { class: "figures" },
      [
        ["Keys", count(roots.length), `for ${plural(all.length, "dataset")}`],
        ["Loaded", count(loaded), loaded === roots.length ? "all of them" : `${count(roots.length - loaded)} not loaded`],
        ["From a person", count(roots.filter((row) => row.keysource.endsWith(",prompt")).length), "typed at the terminal or here"],
      ].map(([term, value, more]) => h("div", {}, h("dt", {}, term), h("dd", {}, value, h("small", {}, more)))),
    ),
  );
}

const isRoot = (row) => row.name === row.key_root;
const isLoaded = (row) => row.status === "available";

/** How far the re-encryption of datasets is. */
function reencryptions(context, details) {
  const rows = [...details.values()].filter((dataset) => prop(dataset, "reencryption"));
  if (!rows.length) return null;
  return card(
    "Re-encryption",
    { sub: "Stored data is sealed again with the newest data keys." },
    rows.map((dataset) => {
      const text = String(prop(dataset, "reencryption"));
      const part = /(\d+)% done/.exec(text)?.[1];
      const isPaused = text === "paused";
      const isPinned = text.startsWith("pinned");
      return h(
        "article",
        { class: "job", key: dataset.name, "aria-label": `Re-encryption of ${dataset.name}` },
        h("div", { class: "line-1" }, h("h3", {}, datasetLink(dataset.name)), stateOf(isPaused || isPinned ? "quiet" : text.startsWith("waits") ? "warn" : "good", isPaused ? "Paused" : isPinned ? "Pinned" : text.startsWith("waits") ? "Waits" : "Running")),
        part !== undefined && h("progress", { max: 100, value: Number(part), "aria-label": `Re-encryption of ${dataset.name}` }, `${part} %`),
        h("p", { class: "muted small" }, visible(isPinned ? `${text}: these snapshots need the older data keys. They are destroyed together with the snapshots.` : text)),
        !isPinned && h("div", { class: "buttons" }, isPaused ? context.button("Resume", steerReencryption, { dataset: dataset.name, how: "resume" }) : context.button("Pause", steerReencryption, { dataset: dataset.name, how: "pause" })),
      );
    }),
  );
}

/** Key roots in the order of their names, each in the nearest one above. */
function tree(context, all, details) {
  const roots = all.filter(isRoot);
  const heirs = new Map(roots.map((row) => [row.name, []]));
  for (const row of all) {
    if (isRoot(row)) continue;
    // A delegate may see a dataset without the one that has its key.
    if (!heirs.has(row.key_root)) {
      heirs.set(row.key_root, []);
      roots.push({ name: row.key_root, key_root: row.key_root, status: row.status, keysource: row.keysource, isHidden: true });
    }
    heirs.get(row.key_root).push(row);
  }
  const known = new Set(roots.map((row) => row.name));
  const below = new Map();
  for (const root of roots) {
    const above = nearest(root.name, known);
    below.set(above, [...(below.get(above) ?? []), root]);
  }
  const view = (root) => rootView(context, root, heirs.get(root.name), below.get(root.name) ?? [], details, view);
  return h("ul", { class: "tree-list acting", "aria-label": "Keys" }, (below.get("") ?? []).map(view));
}

function nearest(dataset, known) {
  for (let at = dataset.lastIndexOf("/"); at > 0; at = dataset.lastIndexOf("/", at - 1)) {
    if (known.has(dataset.slice(0, at))) return dataset.slice(0, at);
  }
  return "";
}

function rootView(context, root, heirs, below, details, view) {
  const about = { dataset: root.name, keysource: root.keysource, heirs: heirs.length + 1 };
  const opened = (context.kept.openKeys ??= new Set());
  const slotted = (context.kept.openSlots ??= new Set());
  const unfolded = (context.kept.openHeirs ??= new Set());
  const toggle = (set) => () => {
    if (!set.delete(root.name)) set.add(root.name);
    context.draw();
  };
  const seen = unfolded.has(root.name) ? heirs : heirs.slice(0, HEIRS);
  const rest = heirs.length - HEIRS;
  const isOpen = opened.has(root.name);
  const hasSlots = slotted.has(root.name);
  const fold = (label, is, set) => h("button", { type: "button", class: "button plain", "aria-expanded": String(is), on: { click: toggle(set) } }, label, h("span", { class: "unseen" }, ` of ${visible(root.name)}`));
  return h(
    "li",
    { key: root.name },
    h(
      "div",
      { class: "node" },
      h("div", { class: "what" }, icon("keys"), h("div", {}, h("strong", {}, root.isHidden ? name(root.name) : datasetLink(root.name)), h("small", {}, name(root.keysource, "name mono"), ageOf(details.get(root.name))))),
      keyState(isLoaded(root)),
      !root.isHidden &&
        h(
          "div",
          { class: "buttons" },
          isLoaded(root)
            ? [button(context, "Rotate", "data keys of", rotateKey, about), button(context, "Change", "the key of", changeKey, about), button(context, "Unload", "the key of", unloadKey, about)]
            : button(context, "Load", "the key of", loadKey, about),
          fold("Data keys", isOpen, opened),
          fold("Slots", hasSlots, slotted),
        ),
    ),
    isOpen && generations(context, root.name),
    hasSlots && slots(context, root.name),
    (seen.length > 0 || below.length > 0) &&
      h(
        "ul",
        { "aria-label": `Below ${root.name}` },
        seen.map((row) => heirView(context, row, details)),
        rest > 0 && h("li", { key: "\nrest" }, h("div", { class: "node" }, h("button", { type: "button", class: "button link", on: { click: toggle(unfolded) } }, unfolded.has(root.name) ? "Show fewer" : `Show ${count(rest)} more that inherit it`))),
        below.map(view),
      ),
  );
}

function button(context, label, rest, act, about) {
  return context.button([label, h("span", { class: "unseen" }, ` ${rest} ${visible(about.dataset)}`)], act, about, { className: "button plain" });
}

function ageOf(dataset) {
  const date = dataset && prop(dataset, "rekeydate");
  return date ? ` · data keys ${ago(date).replace(" ago", " old").replace("just now", "just made")}` : null;
}

function heirView(context, row, details) {
  return h(
    "li",
    { key: row.name },
    h("div", { class: "node" }, h("div", { class: "what" }, icon("datasets"), h("div", {}, datasetLink(row.name), h("small", {}, "inherits the key", ageOf(details.get(row.name)))))),
  );
}

const STATES = { newest: "seals what is written now", "in use": "needed by the dataset", pinned: "needed by snapshots only", unused: "needed by nothing", foreign: "the key does not open them" };

/** The generations of data keys of a dataset. */
function generations(context, dataset) {
  const entry = context.store.use(query("/v1/generations", { name: dataset }), "keys");
  return h(
    "div",
    { style: { margin: "0 0 12px 30px" } },
    shown(entry, (rows) =>
      h(
        "table",
        { class: "table folding" },
        h("caption", { class: "unseen" }, `Data keys of ${visible(dataset)}`),
        h("thead", {}, h("tr", {}, ["Generation", "Made", "State", "Data"].map((title) => h("th", { scope: "col" }, title)))),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              { key: row.generation },
              h("td", { "data-label": "Generation" }, count(row.generation)),
              h("td", { "data-label": "Made" }, ago(row.created)),
              h("td", { "data-label": "State" }, visible(row.state), h("span", { class: "muted small" }, STATES[row.state] ? `: ${STATES[row.state]}` : "")),
              h("td", { "data-label": "Data" }, bytes(row.bytes), h("span", { class: "muted small" }, row.snapshots.length ? `, and in ${plural(row.snapshots.length, "snapshot")}` : "")),
            ),
          ),
        ),
      ),
    ),
  );
}

const KINDS = { passphrase: "A passphrase, or a recovery sheet", key: "A key", unknown: "Of another version of Strongroom" };

/** The slots of a key: each opens the dataset. */
function slots(context, dataset) {
  const entry = context.store.use(query("/v1/slots", { name: dataset }), "keys");
  const remove = (row) => context.button(["Remove", h("span", { class: "unseen" }, ` slot ${row.slot} of ${visible(dataset)}`)], removeSlot, { dataset, slot: row.slot, kind: row.kind }, { className: "button plain" });
  return h(
    "div",
    { class: "stack", style: { margin: "0 0 12px 30px" } },
    shown(entry, (rows) =>
      h(
        "table",
        { class: "table folding" },
        h("caption", { class: "unseen" }, `Slots of ${visible(dataset)}`),
        h("thead", {}, h("tr", {}, ["Slot", "Opened by", "Made", "Cost of a guess"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              { key: row.slot },
              h("td", { "data-label": "Slot" }, count(row.slot), row.priority !== 128 && h("span", { class: "muted small" }, `, priority ${row.priority}`)),
              h("td", { "data-label": "Opened by" }, KINDS[row.kind] ?? visible(row.kind)),
              h("td", { "data-label": "Made" }, ago(row.created)),
              h("td", { "data-label": "Cost of a guess" }, visible(row.cost ?? "–")),
              h("td", { class: "act" }, remove(row)),
            ),
          ),
        ),
      ),
    ),
    h("p", { class: "muted small" }, "A recovery sheet is a page with one more key, to print. Its digits do not pass a network or a browser, so it is made on the machine: ", h("code", {}, visible(`strongroom key sheet ${dataset} sheet.pdf`))),
  );
}
