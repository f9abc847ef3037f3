// Throughput, operations and latency of the devices, live.

import { bytes, nanos, rate } from "../lib/format.js";
import { card, head, shown, tabs } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import "../lib/line-chart.js";
import { sum } from "../lib/rates.js";

const SPAN = 300;

/** What all pools together read and write, as a chart. */
export function throughput({ rates }) {
  rates.start();
  return lines("Throughput", rates.samples, ofAll, "bytes", perSecond, true);
}

const perSecond = (value) => `${bytes(value)}/s`;

function ofAll(sample, kind) {
  return sum(Object.values(sample.pools).map((pool) => pool[kind]));
}

export function performance_(context) {
  const { rates, kept } = context;
  rates.start();
  const last = rates.samples.at(-1);
  const pools = Object.keys(last?.pools ?? {});
  const which = pools.includes(kept.rateOf) ? kept.rateOf : null;
  const choose = (key) => {
    kept.rateOf = key;
    context.draw();
  };
  const of = (sample, kind) => (which ? sample.pools[which]?.[kind] : ofAll(sample, kind)) ?? null;
  return [
    head("Performance", "What the devices of the pools do, measured every two seconds."),
    rates.failure && !last
      ? shown({ error: rates.failure })
      : h(
          "div",
          { class: "stack" },
          pools.length > 1 && h("div", { class: "tools" }, tabs("Pool", [[null, "All pools"], ...pools.map((pool) => [pool, visible(pool)])], which, choose)),
          figures(last, of),
          h(
            "div",
            { class: "two" },
            chart("Throughput", rates.samples, of, "bytes", perSecond, true),
            chart("Operations a second", rates.samples, of, "operations", rate),
          ),
          latency(rates, of),
          last && table(last, which),
        ),
  ];
}

function figures(last, of) {
  const value = (kind, field, format) => {
    const found = last && of(last, kind)?.[field];
    return found === null || found === undefined ? "–" : format(found);
  };
  return card(
    "Now",
    {},
    h(
      "dl",
      { class: "figures" },
      [
        ["Read", value("read", "bytes", perSecond), `${value("read", "operations", rate)} operations a second`],
        ["Written", value("write", "bytes", perSecond), `${value("write", "operations", rate)} operations a second`],
        ["Time of a read", value("read", "nanos", nanos), "mean"],
        ["Time of a write", value("write", "nanos", nanos), "mean"],
        ["Time of a flush", value("flush", "nanos", nanos), "mean"],
      ].map(([term, text, more]) => h("div", {}, h("dt", {}, term), h("dd", {}, text, h("small", {}, more)))),
    ),
  );
}

function chart(label, ...what) {
  return card(label, {}, lines(label, ...what));
}

function lines(label, samples, of, field, format, isBinary = false) {
  const series = [
    { name: "Read", className: "one", of: (sample) => of(sample, "read")?.[field] ?? null },
    { name: "Write", className: "two", of: (sample) => of(sample, "write")?.[field] ?? null },
  ];
  return h("line-chart", { props: { config: { label, samples, series, format, span: SPAN, isBinary } } });
}

/** Percentiles of all devices if the server has them, else means. */
function latency(rates, of) {
  if (!rates.hasPercentiles) return chart("Mean time of an operation", rates.samples, of, "nanos", nanos);
  const one = (op, title) => {
    const series = [["p50", "Half", "one"], ["p99", "99 %", "two"], ["p999", "99.9 %", "three"]].map(([key, text, className]) => ({
      name: text,
      className,
      of: (sample) => sample.latency?.[op]?.[key] ?? null,
    }));
    return card(title, { sub: "Of all pools: so many operations take at most so long." }, h("line-chart", { props: { config: { label: title, samples: rates.samples, series, format: nanos, span: SPAN } } }));
  };
  return h("div", { class: "two" }, one("read", "Time of reads"), one("write", "Time of writes"));
}

function table(last, which) {
  const rows = Object.entries(last.pools).filter(([pool]) => !which || pool === which);
  return card(
    "By device",
    {},
    h(
      "table",
      { class: "table folding" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Device"), ["Read", "Written", "Operations", "Time of a read", "Time of a write"].map((title) => h("th", { scope: "col", class: "num" }, title)))),
      h(
        "tbody",
        {},
        rows.flatMap(([pool, { devices }]) =>
          devices.map((device) =>
            h(
              "tr",
              { key: `${pool} ${device.path}` },
              h("td", {}, name(device.path, "name mono"), h("div", { class: "muted small" }, name(pool))),
              h("td", { class: "num", "data-label": "Read" }, `${bytes(device.read.bytes)}/s`),
              h("td", { class: "num", "data-label": "Written" }, `${bytes(device.write.bytes)}/s`),
              h("td", { class: "num", "data-label": "Operations" }, rate(device.read.operations + device.write.operations)),
              h("td", { class: "num", "data-label": "Time of a read" }, nanos(device.read.nanos)),
              h("td", { class: "num", "data-label": "Time of a write" }, nanos(device.write.nanos)),
            ),
          ),
        ),
      ),
    ),
  );
}
