// Who may do what with a dataset.

import { query } from "../lib/api.js";
import { card, shown } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { allow, unallow } from "../acts/serving.js";

const SCOPES = { local: "here only", descendent: "below only", "local+descendent": "here and below", create: "whoever creates below", set: "a set" };
const KINDS = { user: "User", group: "Group", everyone: "Everyone", creator: "Creator", set: "Set" };

/** The permissions of a dataset and of those above it. */
export function permissionsCard(context, dataset) {
  const entry = context.store.use(query("/v1/permissions", { name: dataset }), "datasets");
  return card(
    "Permissions",
    { sub: "What users other than root may do. Loading keys and changing keys are separate.", tools: context.button("Give permissions", allow, { dataset }) },
    shown(entry, (rows) => (rows.length ? table(context, dataset, rows) : h("p", { class: "muted" }, "Only root may do something here."))),
  );
}

function table(context, dataset, rows) {
  return h(
    "table",
    { class: "table folding" },
    h("thead", {}, h("tr", {}, ["Who", "May", "Where"].map((title) => h("th", { scope: "col" }, title)), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
    h(
      "tbody",
      {},
      rows.map((row) =>
        h(
          "tr",
          {},
          h("td", {}, h("span", { class: "muted" }, KINDS[row.kind] ?? visible(row.kind), " "), row.name && h("strong", {}, name(row.name))),
          h("td", { "data-label": "May" }, visible(row.permissions.join(", "))),
          h("td", { "data-label": "Where", class: "muted" }, SCOPES[row.scope] ?? visible(row.scope), row.dataset !== dataset && [", from ", name(row.dataset)]),
          h("td", { class: "act" }, row.dataset === dataset && row.scope !== "create" && row.scope !== "set" && context.button(["Take away", h("span", { class: "unseen" }, ` from ${visible(row.name || "everyone")}`)], unallow, row, { className: "button plain" })),
        ),
      ),
    ),
  );
}
