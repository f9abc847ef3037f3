// A picture of the devices of a pool that is to be made: groups, and what they can lose.

import { bytes, plural } from "./format.js";
import { icon } from "./icons.js";
import { h, name } from "./view.js";

const WORDS = ["no", "any one", "any two", "any three"];

/** `groups` are `{devices, parity}`, as in a request; `size` is that of each device, if it is known. */
export function layoutPicture({ groups = [], spares = [], caches = [], size = null, isLog = false }) {
  if (!groups.length && !spares.length && !caches.length) return null;
  return h(
    "div",
    { class: "layout", role: "group", "aria-label": "The layout", key: "picture" },
    groups.length > 0 && h("p", {}, h("strong", {}, survival(groups))),
    groups.length > 0 && !isLog && h("p", { class: "muted small" }, space(groups, size)),
    h("ul", {}, groups.map((group) => box(titleOf(group), group.devices, losses(group))), spares.length > 0 && box("Spares", spares), caches.length > 0 && box("Cache", caches)),
  );
}

function box(title, devices, can) {
  const seen = devices.slice(0, 32);
  return h(
    "li",
    {},
    h("p", {}, title, can !== undefined && h("span", { class: "muted" }, can ? ` · ${WORDS[Math.min(can, 3)]} may fail` : " · none may fail")),
    h("ul", {}, seen.map((path) => h("li", { title: path }, icon("disk"), name(path.slice(path.lastIndexOf("/") + 1) || path)))),
    devices.length > seen.length && h("p", { class: "muted small" }, `and ${plural(devices.length - seen.length, "more device")}`),
  );
}

function titleOf({ devices, parity }) {
  if (parity) return `RAID-Z${parity}`;
  return devices.length > 1 ? "Mirror" : "Single disk";
}

/** How many devices a group can lose. */
function losses({ devices, parity }) {
  return parity ? Math.min(parity, devices.length - 1) : devices.length - 1;
}

/** What the pool survives, in words. */
function survival(groups) {
  const least = Math.min(...groups.map(losses));
  if (least <= 0) return "The loss of one disk can destroy the pool.";
  const kinds = new Set(groups.map(titleOf));
  const kind = kinds.size === 1 ? { Mirror: "mirror" }[[...kinds][0]] ?? "group" : "group";
  const number = least > 3 ? `any ${least}` : WORDS[least];
  return `Survives the loss of ${number} ${least === 1 ? "disk" : "disks"}${groups.length > 1 ? ` of each ${kind}` : ""}, and not of one more${groups.length > 1 ? ` of the same ${kind}` : ""}.`;
}

/** How much of the space is for data. */
function space(groups, size) {
  const data = groups.reduce((sum, group) => sum + (group.parity ? Math.max(0, group.devices.length - group.parity) : 1), 0);
  const all = groups.reduce((sum, group) => sum + group.devices.length, 0);
  const part = `${data} of ${plural(all, "disk")} ${data === 1 ? "holds" : "hold"} data, the others what is needed when one fails.`;
  const known = size ? `About ${bytes(data * size)} for data. ` : "";
  return known + (data === all ? "All disks hold data." : part) + (all > 1 && !size ? " In a group, each disk counts as the smallest one." : "");
}
