// Views as plain objects, and the code that makes the document match them.
//
// All text goes through text nodes and attributes. No markup is ever parsed, so a name that looks like markup is text.
// Text that is read has no hidden characters.

import { visible } from "./characters.js";

export { visible };

const SVG = "http://www.w3.org/2000/svg";
const state = new WeakMap();

/**
 * A node of a view.
 *
 * `attrs` are attributes: `true` stands for an empty one, `false` and `null` for none. Four names are special: `key`
 * tells siblings apart, `on` has listeners, `props` has properties of the element, and `style` has declarations that
 * are set one by one, as the policy for styles demands.
 */
export function h(tag, attrs, ...children) {
  return { tag, attrs: attrs ?? {}, children: flat(children, []) };
}

function flat(children, into) {
  for (const child of children) {
    if (Array.isArray(child)) flat(child, into);
    else if (child !== null && child !== undefined && child !== false && child !== "") into.push(child);
  }
  return into;
}

/** Makes the children of `host` match `views`. */
export function render(host, ...views) {
  patchChildren(host, flat(views, []), host.namespaceURI === SVG);
}

function patchChildren(parent, views, inSvg) {
  const keyed = new Map();
  for (let node = parent.firstChild; node; node = node.nextSibling) {
    const key = state.get(node)?.key;
    if (key !== undefined) keyed.set(key, node);
  }
  let at = parent.firstChild;
  for (const view of views) {
    const found = matching(at, view, keyed);
    if (found) {
      if (found === at) at = at.nextSibling;
      else parent.insertBefore(found, at);
      patch(found, view, inSvg);
    } else {
      parent.insertBefore(make(view, inSvg), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** The node that can become `view`: the one with its key, or else the next one of its kind. */
function matching(at, view, keyed) {
  if (typeof view !== "object") return at?.nodeType === Node.TEXT_NODE ? at : null;
  const { key } = view.attrs;
  if (key !== undefined) {
    const node = keyed.get(key);
    keyed.delete(key);
    return node && state.get(node).tag === view.tag ? node : null;
  }
  const known = at && state.get(at);
  return known && known.tag === view.tag && known.key === undefined ? at : null;
}

function make(view, inSvg) {
  if (typeof view !== "object") return document.createTextNode(visible(view));
  const isSvg = inSvg || view.tag === "svg";
  const node = isSvg ? document.createElementNS(SVG, view.tag) : document.createElement(view.tag);
  state.set(node, { tag: view.tag, key: view.attrs.key, attrs: {}, on: {} });
  patch(node, view, inSvg);
  return node;
}

function patch(node, view, inSvg) {
  if (typeof view !== "object") {
    const text = visible(view);
    if (node.data !== text) node.data = text;
    return;
  }
  const known = state.get(node);
  patchAttributes(node, known.attrs, view.attrs);
  listen(node, known, view.attrs.on ?? {});
  known.attrs = view.attrs;
  // Elements of our own fill themselves.
  if (!view.tag.includes("-")) patchChildren(node, view.children, inSvg || view.tag === "svg");
  for (const [name, value] of Object.entries(view.attrs.props ?? {})) {
    if (node[name] !== value) node[name] = value;
  }
}

function patchAttributes(node, before, after) {
  for (const name of Object.keys(before)) {
    if (!(name in after) && !SPECIAL.has(name)) node.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(after)) {
    if (SPECIAL.has(name) || before[name] === value) continue;
    if (value === null || value === undefined || value === false) node.removeAttribute(name);
    else node.setAttribute(name, value === true ? "" : READ.has(name) ? visible(value) : String(value));
  }
  const [old, style] = [before.style ?? {}, after.style ?? {}];
  for (const name of Object.keys(old)) if (!(name in style)) node.style.removeProperty(name);
  for (const [name, value] of Object.entries(style)) {
    if (old[name] !== value) node.style.setProperty(name, value);
  }
}

// Attributes that are shown or read aloud.
const READ = new Set(["title", "placeholder", "aria-label", "alt"]);
const SPECIAL = new Set(["key", "on", "props", "style"]);

function listen(node, known, on) {
  for (const name of Object.keys(on)) {
    if (!(name in known.on)) node.addEventListener(name, (event) => known.on[name]?.(event));
  }
  for (const name of Object.keys(known.on)) known.on[name] = on[name];
  Object.assign(known.on, on);
}

/** A name from elsewhere. */
export function name(text, className = "name") {
  return h("bdi", { class: className }, visible(text));
}
