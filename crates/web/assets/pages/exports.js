// What is served to others, and who uses it.

import { bytes, plural } from "../lib/format.js";
import { stateOf } from "../lib/icons.js";
import { card, head, shown } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { endSession, exportIscsi, exportNbd, unexport } from "../acts/serving.js";

export function exports_(context) {
  const { store } = context;
  const volumes = (store.use("/v1/datasets?properties=volsize", "datasets").value ?? []).filter((row) => row.type === "volume").map((row) => row.name);
  return [
    head("Exports", "Block devices that other machines and programs use.", context.button("Export over NBD", exportNbd, { volumes }), context.button("Export over iSCSI", exportIscsi, { volumes })),
    h(
      "div",
      { class: "stack" },
      card("NBD", {}, shown(store.use("/v1/exports/nbd", "exports"), (rows) => table(context, rows, "nbd", "client"))),
      card("iSCSI", {}, shown(store.use("/v1/exports/iscsi", "exports"), (rows) => table(context, rows, "iscsi", "session"))),
      card("Sessions of initiators", {}, shown(store.use("/v1/sessions", "exports"), (rows) => sessions(context, rows))),
    ),
  ];
}

function table(context, rows, protocol, user) {
  if (!rows.length) return h("p", { class: "muted" }, "Nothing is exported.");
  return h(
    "table",
    { class: "table folding" },
    h("thead", {}, h("tr", {}, ["Export", "Size", "State", "Used by"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          { key: row.name },
          h("td", {}, h("strong", {}, name(row.name)), h("div", { class: "muted small" }, name(row.device), row.description && [": ", visible(row.description)]), h("div", { class: "muted small mono" }, name(row.uri))),
          h("td", { "data-label": "Size" }, bytes(row.size), row.read_only && h("div", { class: "muted small" }, "read-only")),
          h("td", { "data-label": "State" }, row.failure ? [stateOf("warn", "Waits"), h("div", { class: "small" }, visible(row.failure))] : stateOf("good", "Open")),
          h("td", { "data-label": "Used by" }, plural(row.connections, user), row.reservation?.kind && h("div", { class: "muted small" }, `reserved by ${visible(row.reservation.holders.join(", "))}`)),
          h("td", { class: "act" }, context.button(["Take back", h("span", { class: "unseen" }, ` ${visible(row.name)}`)], unexport, { name: row.name, protocol }, { className: "button plain" })),
        ),
      ),
    ),
  );
}

function sessions(context, rows) {
  if (!rows.length) return h("p", { class: "muted" }, "No initiator is logged in.");
  return h(
    "table",
    { class: "table folding" },
    h("thead", {}, h("tr", {}, ["Initiator", "Target", "Address"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          h("td", {}, name(row.initiator)),
          h("td", { "data-label": "Target" }, name(row.target), h("span", { class: "muted" }, ` session ${row.number}`)),
          h("td", { "data-label": "Address" }, name(row.address)),
          h("td", { class: "act" }, context.button(["End", h("span", { class: "unseen" }, ` the session of ${visible(row.initiator)}`)], endSession, row, { className: "button plain" })),
        ),
      ),
    ),
  );
}
