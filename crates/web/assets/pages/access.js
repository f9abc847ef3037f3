// Who gets in: permissions on datasets, tokens, zones.

import { ago, moment } from "../lib/format.js";
import { card, datasetLink, head, shown } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { createToken, revokeToken } from "../acts/serving.js";
import { permissionsCard } from "./permissions.js";

export function access(context) {
  const { store, session, kept } = context;
  const names = (store.use("/v1/datasets?properties=used", "datasets").value ?? []).map((row) => row.name);
  const dataset = names.includes(kept.accessTo) ? kept.accessTo : names[0];
  const choose = (event) => {
    kept.accessTo = event.target.value;
    context.draw();
  };
  return [
    head("Access", "Users, tokens and tenants."),
    h(
      "div",
      { class: "stack" },
      dataset !== undefined && [
        h(
          "div",
          { class: "field", style: { "max-width": "420px" } },
          h("label", { for: "access-to" }, "Dataset"),
          h("input", { id: "access-to", list: "access-names", props: { value: kept.accessTo ?? dataset }, on: { change: choose } }),
          h("datalist", { id: "access-names" }, names.slice(0, 500).map((value) => h("option", { key: value, value }))),
        ),
        permissionsCard(context, dataset),
      ],
      tokens(context),
      session.admin && card("Zones", { sub: "Tenants that see one dataset as a pool of their own." }, shown(store.use("/v1/zones", "datasets"), zones)),
    ),
  ];
}

function tokens(context) {
  const { store, session } = context;
  const entry = store.use("/v1/tokens", "tokens");
  return card(
    "Tokens",
    { sub: "Programs and browsers show a token to act for a user.", tools: session.via !== "session" && session.admin && context.button("Create a token", createToken) },
    shown(entry, (rows) => {
      if (!rows.length) return h("p", { class: "muted" }, "There are no tokens.");
      return h(
        "table",
        { class: "table folding" },
        h("thead", {}, h("tr", {}, ["Token", "User", "Last used", "Expires"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              { key: row.id },
              h("td", {}, h("strong", {}, name(row.label || row.id)), h("div", { class: "muted small mono" }, visible(row.id)), scopeOf(row.scope)),
              h("td", { "data-label": "User" }, name(String(row.user)), row.zone && [" in ", name(row.zone)]),
              h("td", { "data-label": "Last used" }, row.last_used ? ago(row.last_used) : "never"),
              h("td", { "data-label": "Expires" }, row.expires ? moment(row.expires) : "never"),
              h("td", { class: "act" }, context.button(["Revoke", h("span", { class: "unseen" }, ` ${visible(row.label || row.id)}`)], revokeToken, row, { className: "button plain" })),
            ),
          ),
        ),
      );
    }),
  );
}

/** The limits of a token. */
function scopeOf(scope) {
  const parts = [];
  if (scope.read_only) parts.push("reads only");
  if (scope.dataset) parts.push(["reaches ", name(scope.dataset)]);
  if (scope.commands.length) parts.push(`for ${visible(scope.commands.join(", "))}`);
  return parts.map((part) => h("div", { class: "muted small" }, part));
}

function zones(rows) {
  if (!rows.length) return h("p", { class: "muted" }, "There are no zones.");
  return h(
    "table",
    { class: "table folding" },
    h("thead", {}, h("tr", {}, ["Zone", "Dataset", "User", "Socket"].map((title) => h("th", { scope: "col" }, title)))),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          { key: row.name },
          h("td", {}, h("strong", {}, name(row.name)), row.profile !== "none" && h("div", { class: "muted small" }, row.profile)),
          h("td", { "data-label": "Dataset" }, row.dataset ? datasetLink(row.dataset) : h("span", { class: "muted" }, "its pool is not imported")),
          h("td", { "data-label": "User" }, row.owner ? name(row.owner) : "root only"),
          h("td", { "data-label": "Socket" }, name(row.socket, "name mono")),
        ),
      ),
    ),
  );
}
