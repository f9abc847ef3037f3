// Snapshots on a line of time, and as a list.

import { query } from "../lib/api.js";
import { ago, bytes, count, moment, plural } from "../lib/format.js";
import { card, datasetLink, filterField, head, prop, shown, tabs } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import "../lib/long-list.js";
import "../lib/time-line.js";
import { cloneSnapshot, destroy, hold, KINDS, parseSchedule, release, rollback } from "../acts/datasets.js";

const PROPERTIES = "creation,used,referenced,userrefs";

export function snapshots(context) {
  const entry = context.store.use(query("/v1/snapshots", { properties: PROPERTIES }), "datasets");
  return [head("Snapshots", entry.value && `${plural(entry.value.length, "snapshot")} of all datasets`), part(context, entry, null, null, {})];
}

/** The snapshots of one dataset. */
export function snapshotPart(context, dataset, schedule, more) {
  const { value, error } = context.store.use(query("/v1/snapshots", { name: dataset, depth: 1, properties: PROPERTIES }), "datasets");
  const own = value?.filter((snapshot) => snapshot.name.startsWith(`${dataset}@`));
  return part(context, { value: own, error }, dataset, schedule, more);
}

const SPANS = [["all", "All"], ["year", "Year"], ["month", "Month"], ["week", "Week"], ["day", "Day"]];
const SECONDS = { year: 366 * 86400, month: 31 * 86400, week: 7 * 86400, day: 86400 };

function part(context, entry, dataset, schedule, { tools }) {
  context.kept.snapshots ??= {};
  const state = (context.kept.snapshots[dataset ?? ""] ??= { filter: "", span: "all", chosen: null });
  const set = (change) => {
    Object.assign(state, change);
    context.draw();
  };
  return h(
    "div",
    { class: "stack" },
    card(
      dataset ? "Snapshots" : "Over time",
      { sub: dataset && (schedule && schedule !== "none" ? `Taken by schedule: ${visible(schedule)}` : "No schedule"), tools },
      shown(entry, (all) =>
        all.length
          ? [h("div", { class: "tools", style: { "margin-bottom": "12px" } }, tabs("Span of time", SPANS, state.span, (span) => set({ span }))), h("time-line", { props: { config: timeLine(all, dataset, schedule, state.span) } })]
          : h("p", { class: "muted" }, dataset ? "There are none yet." : "There are no snapshots yet."),
      ),
    ),
    entry.value?.length > 0 && list(context, entry.value, dataset, state, set),
  );
}

function kindOf(snapshot) {
  return /@auto-([a-z0-9]+)-\d{4}-\d{2}-\d{2}-\d{4}(?:Z|[pm]\d{4})?$/.exec(snapshot.name)?.[1] ?? "by hand";
}

function timeLine(all, dataset, schedule, span) {
  const times = new Map();
  const kept = dataset ? parseSchedule(schedule) : {};
  for (const kind of Object.keys(kept)) times.set(kind, []);
  let oldest = Infinity;
  for (const snapshot of all) {
    const kind = kindOf(snapshot);
    const time = prop(snapshot, "creation") ?? 0;
    oldest = Math.min(oldest, time);
    if (!times.has(kind)) times.set(kind, []);
    times.get(kind).push(time);
  }
  const to = Date.now() / 1000;
  const from = span === "all" ? Math.min(oldest, to - 3600) - 0.02 * (to - oldest) : to - SECONDS[span];
  const order = [...KINDS, "by hand"];
  const lanes = [...times].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b));
  return {
    label: dataset ? `Snapshots of ${dataset} over time` : "Snapshots over time",
    from,
    to,
    lanes: lanes.map(([kind, times]) => ({ name: kind === "by hand" ? "By hand" : kind[0].toUpperCase() + kind.slice(1), keeps: kept[kind], times, level: kind === "by hand" ? "by-hand" : "scheduled" })),
  };
}

function list(context, all, dataset, state, set) {
  const text = state.filter.toLowerCase();
  const shownRows = (text ? all.filter((one) => one.name.toLowerCase().includes(text)) : all).map((snapshot) => ({ key: snapshot.name, snapshot }));
  shownRows.sort((a, b) => (prop(b.snapshot, "creation") ?? 0) - (prop(a.snapshot, "creation") ?? 0));
  const chosen = all.find((one) => one.name === state.chosen);
  const label = (one) => (dataset ? `@${one.name.split("@")[1]}` : one.name);
  const config = {
    label: dataset ? `Snapshots of ${dataset}` : "Snapshots",
    empty: "No snapshot has this in its name.",
    current: state.chosen,
    foot: `${count(shownRows.length)}${text ? ` of ${count(all.length)}` : ""} · choose one to act on it`,
    columns: [
      {
        name: "Name",
        size: "minmax(200px, 3fr)",
        narrow: "minmax(0, 1fr)",
        cell: (row) => h("button", { type: "button", class: "button link", tabindex: -1, on: { click: () => set({ chosen: row.key }) } }, name(label(row.snapshot))),
      },
      { name: "Taken", size: "130px", narrow: "92px", cell: (row) => h("span", { title: moment(prop(row.snapshot, "creation") ?? 0) }, ago(prop(row.snapshot, "creation") ?? 0)) },
      { name: "Holds alone", size: "92px", isNumber: true, isWide: true, cell: (row) => bytes(prop(row.snapshot, "used")) },
      { name: "Refers to", size: "92px", isNumber: true, isWide: true, cell: (row) => bytes(prop(row.snapshot, "referenced")) },
      { name: "Held", size: "70px", isWide: true, cell: (row) => (prop(row.snapshot, "userrefs") ? h("span", { class: "badge" }, "held") : "") },
    ],
    rows: shownRows,
    onOpen: (row) => set({ chosen: row.key }),
  };
  return [
    h("div", { class: "tools" }, filterField("Filter snapshots by name", state.filter, (filter) => set({ filter }))),
    h("long-list", { key: "snapshots", props: { config } }),
    h("div", { role: "region", "aria-live": "polite", "aria-label": "The chosen snapshot" }, chosen && details(context, chosen)),
  ];
}

function details(context, snapshot) {
  const held = prop(snapshot, "userrefs");
  const tags = held ? (context.store.use(query("/v1/holds", { name: snapshot.name }), "datasets").value ?? []).map((row) => row.tag) : [];
  const about = { snapshot: snapshot.name, tags };
  return card(
    name(snapshot.name),
    { sub: `Taken ${moment(prop(snapshot, "creation") ?? 0)}` },
    h("p", { class: "small muted" }, "Of ", datasetLink(snapshot.name.split("@")[0]), `. Destroying it frees ${bytes(prop(snapshot, "used"))}.`, tags.length > 0 && [" Held by: ", name(tags.join(", ")), "."]),
    h(
      "div",
      { class: "buttons", style: { "margin-top": "14px" } },
      context.button("Roll back", rollback, about),
      context.button("Clone", cloneSnapshot, about),
      context.button("Hold", hold, about),
      tags.length > 0 && context.button("Release", release, about),
      !held && context.button("Destroy", destroy, { name: snapshot.name }),
    ),
  );
}
