// What goes on and what happened: work, events, and the history of pools.

import { ago, moment } from "../lib/format.js";
import { mark } from "../lib/icons.js";
import { card, head, shown, tabs } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import "../lib/long-list.js";
import { jobView } from "./jobs.js";

const BAD = /fault|fail|suspend|error|damage|lost|missing|forged/;
const WARN = /degrad|offline|late|full|incomplete|resilver_start|remove/;

/** A line of the log of events. */
export function eventRow(event) {
  const level = BAD.test(event.class) ? "bad" : WARN.test(event.class) ? "warn" : "quiet";
  return h(
    "li",
    { key: `event-${event.id}` },
    mark(level),
    h("time", { datetime: new Date(event.time * 1000).toISOString(), title: moment(event.time) }, ago(event.time)),
    h("span", {}, h("strong", {}, name(event.pool)), " ", h("span", { class: "muted" }, visible(event.class.replaceAll("_", " "))), event.text && [" ", visible(event.text)]),
  );
}

export function activity(context) {
  const { store, kept } = context;
  const which = kept.activity ?? "now";
  const show = (key) => {
    kept.activity = key;
    context.draw();
  };
  return [
    head("Activity", "Work in the background, events, and what was done to pools."),
    h(
      "div",
      { class: "stack" },
      h("div", { class: "tools" }, tabs("What to show", [["now", "Work and events"], ["history", "History"]], which, show)),
      which === "history" ? history(context) : now(store, context),
    ),
  ];
}

function now(store, context) {
  return [
    card("Work", {}, shown(store.use("/v1/jobs", "jobs"), (jobs) => (jobs.length ? jobs.map((job) => jobView(context, job)) : h("p", { class: "muted" }, "Nothing runs, and nothing ran lately.")))),
    card(
      "Events",
      { sub: "Since the daemon started, the newest first." },
      shown(store.use("/v1/events", "events"), (events) => (events.length ? h("ul", { class: "log" }, events.slice(-200).reverse().map(eventRow)) : h("p", { class: "muted" }, "Nothing has happened."))),
    ),
  ];
}

/** What was done to a pool, with command lines. */
function history(context) {
  const { store, kept } = context;
  return shown(store.use("/v1/pools", "pools"), (pools) => {
    const pool = kept.historyOf ?? pools[0]?.name;
    if (!pool) return h("p", { class: "muted" }, "There is no pool.");
    const path = `/v1/history?name=${encodeURIComponent(pool)}&internal=true`;
    const choose = (key) => {
      kept.historyOf = key;
      context.draw();
    };
    return [
      pools.length > 1 && tabs("Pool", pools.map((one) => [one.name, visible(one.name)]), pool, choose),
      shown(store.use(path, "events"), (rows) => h("long-list", { props: { config: historyList(pool, rows) } })),
    ];
  });
}

function historyList(pool, rows) {
  const last = rows.length - 1;
  return {
    label: `History of ${pool}`,
    empty: "Nothing was done.",
    columns: [
      { name: "Time", size: "150px", narrow: "110px", cell: (row) => h("span", { class: "num muted" }, moment(row.time)) },
      { name: "What", size: "minmax(0, 1fr)", cell: (row) => h("span", { class: "mono", title: visible(row.text) }, visible(row.text)) },
      { name: "By", size: "160px", isWide: true, cell: (row) => h("span", { class: "muted" }, row.internal ? "the pool" : visible(row.who)) },
    ],
    rows: rows.map((_, i) => ({ ...rows[last - i], key: String(last - i) })),
  };
}
