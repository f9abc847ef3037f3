// Pieces that several pages share.

import { h, name, visible } from "./view.js";
import { icon, mark } from "./icons.js";
import { bytes, percent } from "./format.js";

/** How good a state of a pool or device is. */
export function levelOf(state) {
  if (["ONLINE", "AVAIL"].includes(state)) return "good";
  if (["DEGRADED", "RESILVERING", "INCOMPLETE", "REMOVING", "SLOW"].includes(state)) return "warn";
  if (state === "OFFLINE") return "quiet";
  return "bad";
}

const WORDS = {
  ONLINE: "Online",
  DEGRADED: "Degraded",
  SUSPENDED: "Suspended",
  STALLED: "Stalled",
  UNAVAIL: "Unavailable",
  RESILVERING: "Resilvering",
  OFFLINE: "Offline",
  FAULTED: "Faulted",
  MISSING: "Missing",
  INCOMPLETE: "Incomplete",
  REMOVING: "Removing",
  SLOW: "Slow",
  AVAIL: "Spare, ready",
};

/** The word for a state of a pool or device. */
export function wordOf(state) {
  return WORDS[state] ?? visible(state);
}

/** What an entry of the store holds; a line instead if it is not there yet, or if the server refused. */
export function shown(entry, view) {
  if (entry.error) {
    const isRight = entry.error.kind === "permission";
    return h("p", { class: "muted" }, isRight ? "You have no right to see this." : visible(entry.error.message));
  }
  if (entry.value === undefined) return h("p", { class: "muted", "aria-busy": "true" }, "Loading…");
  return view(entry.value);
}

/** A page's head: title, a line below, and buttons. */
export function head(title, sub, ...buttons) {
  return h(
    "div",
    { class: "head" },
    h("div", {}, h("h1", { id: "title" }, title), sub && h("p", { class: "sub" }, sub)),
    buttons.flat().some(Boolean) && h("div", { class: "buttons" }, buttons),
  );
}

/** A sheet with a title. */
export function card(title, { sub, tools, id } = {}, ...children) {
  return h(
    "section",
    { class: "card", "aria-label": typeof title === "string" ? title : null, key: id },
    h("header", {}, h("div", {}, h("h2", {}, title), sub && h("p", { class: "muted small" }, sub)), tools && h("div", { class: "buttons" }, tools)),
    children,
  );
}

/** Something to tell, with its level. */
export function notice(level, text, more, button) {
  return h("div", { class: `notice ${level}` }, mark(level), h("div", {}, h("p", {}, text), more && h("p", {}, more)), button);
}

/** Parts of a whole as a bar, which its legend says in words. */
export function bar(parts, whole, className = "") {
  return h(
    "div",
    { class: `bar ${className}`, "aria-hidden": "true" },
    parts.map(({ size, kind }) => h("span", { class: kind, style: { width: `${whole ? (100 * size) / whole : 0}%` } })),
  );
}

/** How full a pool is. */
export function capacity(pool) {
  const usable = pool.allocated + pool.free;
  const part = usable ? pool.allocated / usable : 0;
  const level = part >= 0.96 ? "bad" : part >= 0.8 ? "warn" : "";
  return [
    bar([{ size: pool.allocated, kind: "own" }], pool.size, level),
    h("p", { class: "legend" }, h("span", {}, `${bytes(pool.allocated)} used (${percent(pool.allocated, usable)})`), h("span", {}, `${bytes(pool.free)} free of ${bytes(pool.size)}`)),
  ];
}

/** A link to a dataset. */
export function datasetLink(dataset, text = dataset) {
  return h("a", { href: datasetHref(dataset) }, name(text));
}

/** Where the page of a dataset is. */
export function datasetHref(dataset) {
  return `#/datasets/${dataset.split("/").map(encodeURIComponent).join("/")}`;
}

/** Terms and values; what is absent is left out. */
export function facts(...pairs) {
  return h("dl", { class: "facts" }, pairs.filter(Boolean).map(([term, value]) => [h("dt", {}, term), h("dd", {}, value)]));
}

/** Buttons of which one is pressed. */
export function tabs(label, options, value, onChange) {
  return h(
    "div",
    { class: "tabs", role: "group", "aria-label": label },
    options.map(([key, text]) => h("button", { type: "button", "aria-pressed": String(key === value), on: { click: () => onChange(key) } }, text)),
  );
}

/** A field that filters a list. */
export function filterField(label, value, onChange) {
  return h("input", { class: "grow", type: "search", "aria-label": label, placeholder: label, spellcheck: "false", props: { value }, on: { input: (event) => onChange(event.target.value) } });
}

/** Whether a key is loaded. */
export function keyState(isLoaded) {
  return h("span", { class: `badge ${isLoaded ? "good" : ""}` }, icon(isLoaded ? "unlocked" : "locked"), isLoaded ? "Key loaded" : "Locked");
}

/** The value of a property of a dataset; `null` if it has none. */
export function prop(dataset, property) {
  return dataset.properties[property]?.value ?? null;
}

/** A size of a property that may be the word `none`. */
export function sizeOf(value) {
  return typeof value === "number" ? bytes(value) : visible(value ?? "–");
}
