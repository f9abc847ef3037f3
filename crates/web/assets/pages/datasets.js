// All datasets, as a tree that can be filtered, or as areas by capacity.

import { bytes, count, plural } from "../lib/format.js";
import { icon } from "../lib/icons.js";
import { card, datasetHref, datasetLink, filterField, head, prop, shown, tabs } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import "../lib/long-list.js";
import "../lib/tree-map.js";
import { createDataset } from "../acts/datasets.js";

const PROPERTIES = "used,usedbydataset,usedbysnapshots,usedbyrefreservation,available,encryption,keystatus,mounted,mountpoint";
const PATH = `/v1/datasets?properties=${PROPERTIES}`;

export function datasets(context) {
  const { kept } = context;
  kept.datasets ??= { filter: "", folded: new Set(), view: "list", area: null };
  const entry = context.store.use(PATH, "datasets");
  const names = (entry.value ?? []).filter((row) => row.type === "filesystem").map((row) => row.name);
  const set = (change) => {
    Object.assign(kept.datasets, change);
    context.draw();
  };
  const { filter, view } = kept.datasets;
  return [
    head("Datasets", entry.value && plural(entry.value.length, "dataset"), context.button("Create a dataset", createDataset, { names }, { className: "button main", picture: "plus" })),
    h(
      "div",
      { class: "stack" },
      h(
        "div",
        { class: "tools" },
        tabs("How to show them", [["list", "List"], ["areas", "Capacity"]], view, (key) => set({ view: key })),
        view === "list" && filterField("Filter by name", filter, (text) => set({ filter: text })),
      ),
      shown(entry, (all) => (view === "areas" ? areas(all, kept.datasets, set) : list(all, kept.datasets, set))),
    ),
  ];
}

function list(all, state, set) {
  const rows = state.filter ? matching(all, state.filter) : tree(all, state.folded);
  const fold = (row, isOpen) => {
    if (isOpen) state.folded.delete(row.key);
    else state.folded.add(row.key);
    set({});
  };
  const config = {
    label: "Datasets",
    isTree: !state.filter,
    empty: state.filter ? "No dataset has this in its name." : "There are no datasets yet.",
    foot: state.filter ? `${count(rows.length)} of ${count(all.length)}` : null,
    columns: [
      { name: "Name", size: "minmax(220px, 3fr)", narrow: "minmax(0, 1fr)", isTree: true, cell: (row) => nameCell(row, fold) },
      { name: "Used", size: "92px", narrow: "78px", isNumber: true, cell: (row) => bytes(prop(row.dataset, "used")) },
      { name: "Snapshots", size: "92px", isNumber: true, isWide: true, cell: (row) => bytes(prop(row.dataset, "usedbysnapshots")) },
      { name: "Key", size: "118px", narrow: "28px", cell: (row) => keyCell(row.dataset) },
      { name: "Mounted at", size: "minmax(110px, 1.4fr)", isWide: true, cell: (row) => mountCell(row.dataset) },
    ],
    rows,
    onOpen: (row) => (location.hash = datasetHref(row.dataset.name)),
    onFold: fold,
  };
  return h("long-list", { props: { config } });
}

function nameCell(row, fold) {
  const label = row.level ? row.dataset.name.split("/").at(-1) : row.dataset.name;
  return [
    row.level && h("span", { class: "indent", style: { "--level": String(row.level - 1) } }),
    row.isOpen === undefined
      ? row.level && h("span", { class: "fold-space" })
      : h("button", { type: "button", class: "fold-mark", tabindex: -1, "aria-expanded": String(row.isOpen), "aria-label": `${row.isOpen ? "Fold" : "Unfold"} ${visible(row.dataset.name)}`, on: { click: () => fold(row, !row.isOpen) } }, icon("chevron")),
    icon(row.dataset.type === "volume" ? "volume" : "datasets", "kind"),
    datasetLink(row.dataset.name, label),
    row.dataset.type === "volume" && h("span", { class: "badge" }, "volume"),
  ];
}

function keyCell(dataset) {
  const encryption = prop(dataset, "encryption");
  if (encryption === "off" || encryption === null) return h("span", { class: "muted word" }, "Not encrypted");
  const isLoaded = prop(dataset, "keystatus") === "available";
  return h("span", { class: `state ${isLoaded ? "good" : "quiet"}` }, icon(isLoaded ? "unlocked" : "locked"), h("span", { class: "word" }, isLoaded ? "Loaded" : "Locked"));
}

function mountCell(dataset) {
  if (dataset.type === "volume") return h("span", { class: "muted" }, "–");
  const isMounted = prop(dataset, "mounted") === "yes";
  return isMounted ? name(prop(dataset, "mountpoint") ?? "", "name mono") : h("span", { class: "muted" }, "Not mounted");
}

function matching(all, filter) {
  const text = filter.toLowerCase();
  return all.filter((dataset) => dataset.name.toLowerCase().includes(text)).map((dataset) => ({ key: dataset.name, dataset }));
}

/** Rows of what is not folded, with their place in the tree. Datasets come in the order of their names. */
function tree(all, folded) {
  const below = new Map([["", []]]);
  const known = new Set(all.map((dataset) => dataset.name));
  for (const dataset of all) {
    const above = aboveOf(dataset.name, known);
    if (!below.has(above)) below.set(above, []);
    below.get(above).push(dataset);
  }
  const rows = [];
  const add = (above, level) => {
    const siblings = below.get(above) ?? [];
    siblings.forEach((dataset, i) => {
      const isOpen = below.has(dataset.name) ? !folded.has(dataset.name) : undefined;
      rows.push({ key: dataset.name, dataset, level, isOpen, position: i + 1, of: siblings.length });
      if (isOpen) add(dataset.name, level + 1);
    });
  };
  add("", 1);
  return rows;
}

/** The nearest dataset above that is listed: a delegate may see one without those above it. */
function aboveOf(dataset, known) {
  for (let at = dataset.lastIndexOf("/"); at > 0; at = dataset.lastIndexOf("/", at - 1)) {
    if (known.has(dataset.slice(0, at))) return dataset.slice(0, at);
  }
  return "";
}

/** Capacity: one area for each dataset below the chosen one, and one for what is in itself. */
function areas(all, state, set) {
  const known = new Set(all.map((dataset) => dataset.name));
  const at = state.area && known.has(state.area) ? state.area : "";
  const sums = sumsOf(all);
  const tiles = all.filter((dataset) => aboveOf(dataset.name, known) === at).map((dataset) => tileOf(dataset, sums, at));
  const own = all.find((dataset) => dataset.name === at);
  if (own) tiles.push(ownTile(own));
  return card(
    at ? h("span", {}, "Below ", name(at)) : "Capacity by dataset",
    {
      sub: "Each area is as large as the space that a dataset takes, with all below. The hatched part is held by snapshots only.",
      tools: [at && h("button", { type: "button", class: "button", on: { click: () => set({ area: aboveOf(at, known) }) } }, "One level up")],
    },
    tiles.some((tile) => tile.size > 0) ? h("tree-map", { props: { config: { label: at ? `Capacity below ${at}` : "Capacity by dataset", tiles, onOpen: (key) => set({ area: key }) } } }) : h("p", { class: "empty" }, "Nothing is stored here."),
    h("p", { class: "legend" }, h("span", {}, h("i", { class: "below" }), "Data"), h("span", {}, h("i", { class: "snapshots" }), "Held by snapshots only")),
  );
}

/** Of each dataset, how much only snapshots hold there and below, and how many datasets that is. */
function sumsOf(all) {
  const sums = new Map();
  for (const dataset of all) {
    const parts = dataset.name.split("/");
    for (let depth = 1; depth <= parts.length; depth += 1) {
      const above = parts.slice(0, depth).join("/");
      const sum = sums.get(above) ?? { snapshots: 0, datasets: 0 };
      sum.snapshots += prop(dataset, "usedbysnapshots") ?? 0;
      sum.datasets += 1;
      sums.set(above, sum);
    }
  }
  return sums;
}

function tileOf(dataset, sums, above) {
  const { snapshots, datasets } = sums.get(dataset.name);
  return {
    key: dataset.name,
    title: dataset.name.slice(above.length).replace(/^\//, ""),
    size: prop(dataset, "used") ?? 0,
    snapshots,
    hasBelow: datasets > 1,
    href: datasetHref(dataset.name),
  };
}

function ownTile(dataset) {
  const snapshots = prop(dataset, "usedbysnapshots") ?? 0;
  const size = snapshots + (prop(dataset, "usedbydataset") ?? 0) + (prop(dataset, "usedbyrefreservation") ?? 0);
  return { key: "\nown", title: "in itself", size, snapshots, href: datasetHref(dataset.name) };
}
