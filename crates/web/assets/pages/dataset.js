// One dataset: space, snapshots, key, properties, and who may do what.

import { query } from "../lib/api.js";
import { ago, bytes, moment } from "../lib/format.js";
import { bar, card, datasetHref, datasetLink, facts, head, keyState, notice, prop, shown, sizeOf } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { createDataset, createSnapshot, destroy, inherit, mount, schedule, setProperty, unmount } from "../acts/datasets.js";
import { changeKey, loadKey, rotateKey, unloadKey } from "../acts/keys.js";
import { exportIscsi, exportNbd } from "../acts/serving.js";
import { permissionsCard } from "./permissions.js";
import { snapshotPart } from "./snapshots.js";

export function dataset(context, which) {
  const { store } = context;
  const entry = store.use(query("/v1/datasets", { name: which, depth: 0 }), "datasets");
  const crumbs = breadcrumbs(which);
  if (entry.error) return [crumbs, head(name(which)), notice("quiet", visible(entry.error.message), h("a", { href: "#/datasets" }, "All datasets"))];
  return [
    crumbs,
    shown(entry, ([of]) => (of ? page(context, of) : [head(name(which)), notice("quiet", "There is no such dataset.", h("a", { href: "#/datasets" }, "All datasets"))])),
  ];
}

function breadcrumbs(which) {
  const parts = which.split("/");
  const above = parts.slice(0, -1).map((part, i) => [h("a", { href: datasetHref(parts.slice(0, i + 1).join("/")) }, name(part)), h("span", { "aria-hidden": "true" }, "/")]);
  return h("nav", { class: "crumbs", "aria-label": "Above" }, h("a", { href: "#/datasets" }, "Datasets"), h("span", { "aria-hidden": "true" }, "/"), above);
}

function page(context, of) {
  const isVolume = of.type === "volume";
  const isEncrypted = prop(of, "encryption") !== "off";
  const about = { dataset: of.name };
  return [
    head(
      name(of.name),
      summary(of, isVolume, isEncrypted),
      context.button("Take a snapshot", createSnapshot, about, { className: "button main" }),
      !isVolume && context.button("Create a dataset below", createDataset, { above: of.name }),
      of.name.includes("/") && context.button("Destroy", destroy, { name: of.name }),
    ),
    h(
      "div",
      { class: "stack" },
      h("div", { class: "three" }, space(of), isEncrypted && key(context, of), place(context, of)),
      snapshotPart(context, of.name, prop(of, "snapshot-schedule"), { tools: [context.button("Schedule snapshots", schedule, { dataset: of.name, schedule: prop(of, "snapshot-schedule") })] }),
      properties(context, of),
      permissionsCard(context, of.name),
    ),
  ];
}

function summary(of, isVolume, isEncrypted) {
  return [isVolume ? `Volume of ${bytes(prop(of, "volsize"))}` : "File system", isEncrypted ? `encrypted with ${prop(of, "suite")}` : "not encrypted", `created ${ago(prop(of, "creation"))}`].join(" · ");
}

function space(of) {
  const parts = [
    ["own", "Data", "usedbydataset"],
    ["snapshots", "Only in snapshots", "usedbysnapshots"],
    ["below", "Datasets below", "usedbychildren"],
    ["reserved", "Reserved, not used yet", "usedbyrefreservation"],
  ].map(([kind, label, property]) => ({ kind, label, size: prop(of, property) ?? 0 }));
  const used = prop(of, "used") ?? 0;
  return card(
    "Space",
    { sub: `${bytes(used)} used, ${bytes(prop(of, "available"))} can still be used` },
    bar(parts, used),
    h("p", { class: "legend" }, parts.filter((part) => part.size > 0 || part.kind === "own").map((part) => h("span", {}, h("i", { class: part.kind }), `${part.label} `, h("span", { class: "num" }, bytes(part.size))))),
    h(
      "div",
      { style: { "margin-top": "16px" } },
      facts(
        ["Compression", `${prop(of, "compression")}, ${(prop(of, "compressratio") ?? 1).toFixed(2)} to 1`],
        prop(of, "quota") !== null && prop(of, "quota") !== "none" && ["Quota", sizeOf(prop(of, "quota"))],
        prop(of, "reservation") !== null && prop(of, "reservation") !== "none" && ["Reservation", sizeOf(prop(of, "reservation"))],
        prop(of, "origin") && ["Clone of", name(prop(of, "origin"))],
      ),
    ),
  );
}

function key(context, of) {
  const isLoaded = prop(of, "keystatus") === "available";
  const source = of.properties.keysource;
  const root = source?.source === "inherited" ? source.from : of.name;
  const isOwn = root === of.name;
  const about = { dataset: root, keysource: source?.value ?? "", heirs: 1 };
  const reencryption = prop(of, "reencryption");
  return card(
    "Key",
    {
      tools: [keyState(isLoaded)],
    },
    facts(
      ["Belongs to", isOwn ? "this dataset" : datasetLink(root)],
      ["Comes from", name(source?.value ?? "–", "name mono")],
      ["Newest data keys", prop(of, "rekeydate") ? `${ago(prop(of, "rekeydate"))} (${moment(prop(of, "rekeydate"))})` : "–"],
      reencryption && ["Re-encryption", visible(String(reencryption))],
    ),
    source?.source === "proposed" && notice("warn", "The place of the key came with a stream or a pool, and is not used before it is accepted.", h("code", {}, `strongroom key accept ${of.name}`)),
    h(
      "div",
      { class: "buttons", style: { "margin-top": "16px" } },
      isLoaded ? context.button(["Unload", h("span", { class: "unseen" }, " the key")], unloadKey, about) : context.button("Load the key", loadKey, about, { className: "button main" }),
      isLoaded && context.button(["Rotate", h("span", { class: "unseen" }, " the data keys")], rotateKey, { dataset: of.name }),
      isLoaded && isOwn && context.button(["Change", h("span", { class: "unseen" }, " the key")], changeKey, about),
    ),
  );
}

/** Where a file system is mounted, or how a volume is served. */
function place(context, of) {
  if (of.type === "volume") {
    return card(
      "Block device",
      {},
      facts(["Size", bytes(prop(of, "volsize"))], ["Blocks", bytes(prop(of, "volblocksize"))]),
      context.session.admin && h("div", { class: "buttons", style: { "margin-top": "16px" } }, context.button("Export over NBD", exportNbd, { device: of.name }), context.button("Export over iSCSI", exportIscsi, { device: of.name })),
    );
  }
  const isMounted = prop(of, "mounted") === "yes";
  return card(
    "Mount",
    { tools: isMounted ? context.button("Unmount", unmount, { dataset: of.name }) : context.button("Mount", mount, { dataset: of.name }) },
    facts(["State", isMounted ? "mounted" : "not mounted"], ["Place", name(prop(of, "mountpoint") ?? "–", "name mono")], prop(of, "readonly") === "on" && ["Access", "read-only"]),
  );
}

const SOURCES = { local: "set here", default: "default", none: "", temporary: "for this mount", proposed: "proposed" };

function properties(context, of) {
  const { store, kept } = context;
  const table = new Map((store.use("/v1/properties", "none").value ?? []).map((row) => [row.name, row]));
  const isAll = kept.allProperties ?? false;
  const rows = Object.entries(of.properties)
    .filter(([property, { source }]) => isAll || ["local", "inherited", "proposed", "temporary"].includes(source) || COMMON.has(property))
    .filter(([property]) => property !== "receive_resume_token");
  const toggle = () => {
    kept.allProperties = !isAll;
    context.draw();
  };
  return card(
    "Properties",
    { tools: h("button", { type: "button", class: "button plain", "aria-expanded": String(isAll), on: { click: toggle } }, isAll ? "Show fewer" : "Show all") },
    h(
      "table",
      { class: "table folding" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Property"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "From"), h("th", { scope: "col" }, h("span", { class: "unseen" }, "Act")))),
      h("tbody", {}, rows.map(([property, { value, source, from }]) => propertyRow(context, of, table, { property, value, source, from }))),
    ),
  );
}

const COMMON = new Set(["compression", "recordsize", "quota", "readonly", "snapshot-schedule", "dedup", "atime", "sync"]);

function propertyRow(context, of, table, { property, value, source, from }) {
  const known = table.get(property);
  const isSettable = property.includes(":") || (known ? known.set === "always" : COMMON.has(property));
  const words = known?.values?.split(" | ");
  const isChoice = words && words.length > 1 && words.every((word) => /^[a-z0-9-]+$/.test(word)) && property !== "compression";
  const about = { dataset: of.name, property, value, help: known?.help, words: isChoice ? words : null };
  return h(
    "tr",
    { key: property },
    h("td", {}, name(property), known?.help && h("div", { class: "muted small" }, known.help)),
    h("td", { "data-label": "Value" }, h("span", { class: "mono" }, name(valueText(property, value)))),
    h("td", { "data-label": "From", class: "muted" }, from ? ["inherited from ", datasetLink(from)] : (SOURCES[source] ?? visible(source))),
    h(
      "td",
      { class: "act" },
      isSettable && property !== "snapshot-schedule" && context.button(["Set", h("span", { class: "unseen" }, ` ${visible(property)}`)], setProperty, about, { className: "button plain" }),
      isSettable && source === "local" && context.button(["Inherit", h("span", { class: "unseen" }, ` ${visible(property)}`)], inherit, about, { className: "button plain" }),
    ),
  );
}

const TIMES = new Set(["creation", "rekeydate"]);
const COUNTS = new Set(["guid", "createtxg", "snapshot_count", "filesystem_count", "snapshot_limit", "filesystem_limit", "mount_limit", "userrefs"]);

function valueText(property, value) {
  if (value === null) return "–";
  if (Array.isArray(value)) return value.join(", ");
  if (typeof value !== "number") return String(value);
  if (TIMES.has(property)) return moment(value);
  if (property.endsWith("ratio")) return `${value.toFixed(2)} to 1`;
  return COUNTS.has(property) ? String(value) : bytes(value);
}
