// The first page: is all well, how full is it, what goes on.

import { ago, bytes, percent, plural } from "../lib/format.js";
import { stateOf } from "../lib/icons.js";
import { capacity, card, datasetLink, head, levelOf, notice, shown, wordOf } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { loadKey } from "../acts/keys.js";
import { createDataset } from "../acts/datasets.js";
import { eventRow } from "./activity.js";
import { jobView } from "./jobs.js";
import { throughput } from "./performance.js";

export function overview(context) {
  const { store, session } = context;
  const keys = store.use("/v1/keys", "keys");
  return [
    head("Overview", null, context.button("Create a dataset", createDataset, {}, { className: "button main", picture: "plus" })),
    h(
      "div",
      { class: "stack" },
      session.admin && health(context),
      locked(context, keys),
      session.admin && poolCards(context),
      session.admin && card("Throughput", { tools: h("a", { href: "#/performance" }, "All measurements") }, throughput(context)),
      session.admin &&
        h(
          "div",
          { class: "two loose" },
          card("Work", { tools: h("a", { href: "#/activity" }, "All activity") }, shown(store.use("/v1/jobs", "jobs"), (jobs) => running(context, jobs))),
          card("Latest events", {}, shown(store.use("/v1/events", "events"), latest)),
        ),
      !session.admin && card("Your datasets", {}, shown(store.use("/v1/datasets?properties=used,available", "datasets"), ownDatasets)),
    ),
  ];
}

function health({ store }) {
  return shown(store.use("/v1/health", "health"), ({ advice }) => {
    if (!advice.length) return notice("good", h("strong", {}, "All is well."), "No pool, device or scrub needs attention.");
    const order = [...advice].sort((a, b) => Number(b.severity === "critical") - Number(a.severity === "critical"));
    return h(
      "section",
      { class: "stack", "aria-label": "Advice" },
      order.map((one) => notice(one.severity === "critical" ? "bad" : "warn", [one.pool && h("strong", {}, name(one.pool), ": "), visible(one.text)], one.action && visible(one.action))),
    );
  });
}

/** Datasets whose key has to be loaded. */
function locked(context, entry) {
  const roots = (entry.value ?? []).filter((row) => row.name === row.key_root && row.status !== "available");
  if (!roots.length) return null;
  return card(
    `${plural(roots.length, "key")} not loaded`,
    { sub: "The names and contents of these datasets are out of reach.", tools: h("a", { href: "#/keys" }, "All keys") },
    h(
      "table",
      { class: "table folding" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Dataset"), h("th", { scope: "col" }, "Key from"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
      h(
        "tbody",
        {},
        roots.slice(0, 6).map((row) =>
          h("tr", { key: row.name }, h("td", {}, datasetLink(row.name)), h("td", { "data-label": "Key from" }, name(row.keysource, "name mono")), h("td", { class: "act" }, context.button("Load the key", loadKey, { dataset: row.name, keysource: row.keysource }))),
        ),
      ),
    ),
  );
}

function poolCards({ store }) {
  return shown(store.use("/v1/pools", "pools"), (pools) =>
    pools.length
      ? h("div", { class: "two" }, pools.map(poolCard))
      : card("No pool yet", {}, h("p", { class: "muted" }, "Create one on the command line: ", h("code", {}, "strongroom pool create -s 4G tank /var/lib/tank.pool"))),
  );
}

function poolCard(pool) {
  const bad = pool.devices.filter((device) => levelOf(device.state) !== "good");
  return card(
    h("a", { href: `#/pools/${encodeURIComponent(pool.name)}` }, name(pool.name)),
    { id: pool.name, tools: stateOf(levelOf(pool.health), wordOf(pool.health)) },
    capacity(pool),
    h(
      "p",
      { class: "muted small", style: { "margin-top": "10px" } },
      plural(pool.devices.length, "device"),
      bad.length ? `, ${bad.length} of them not online` : ", all online",
      pool.scrub.state === "finished" ? ` · scrubbed ${ago(pool.scrub.ended)}` : pool.scrub.state === "running" ? ` · scrub at ${percent(pool.scrub.examined, pool.scrub.total)}` : " · never scrubbed",
    ),
  );
}

function running(context, jobs) {
  const now = jobs.filter((job) => ["running", "paused", "stopping"].includes(job.state));
  if (!now.length) return h("p", { class: "muted" }, "Nothing runs in the background.");
  return now.map((job) => jobView(context, job));
}

function latest(events) {
  if (!events.length) return h("p", { class: "muted" }, "Nothing has happened since the daemon started.");
  return h("ul", { class: "log" }, events.slice(-6).reverse().map(eventRow));
}

function ownDatasets(datasets) {
  return h("ul", {}, datasets.slice(0, 50).map((row) => h("li", {}, datasetLink(row.name), " ", h("span", { class: "muted num" }, bytes(row.properties.used?.value)))));
}
