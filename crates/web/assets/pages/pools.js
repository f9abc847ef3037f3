// Pools: health, capacity, and the tree of their devices.

import { ago, bytes, count, duration, moment, plural } from "../lib/format.js";
import { icon, stateOf } from "../lib/icons.js";
import { capacity, card, datasetLink, facts, head, levelOf, notice, shown, wordOf } from "../lib/parts.js";
import { h, name, visible } from "../lib/view.js";
import { attachDevice, clearFailures, detachDevice, exportPool, importPool, replaceDevice, scrub, takeOffline, takeOnline } from "../acts/pools.js";
import { addDevices, createPool } from "../acts/new-pool.js";
import { jobView } from "./jobs.js";

export function pools(context, [which]) {
  const entry = context.store.use("/v1/pools", "pools");
  if (which !== undefined) {
    return shown(entry, (all) => {
      const pool = all.find((one) => one.name === which);
      return pool ? poolPage(context, pool) : [head(name(which)), notice("quiet", "There is no such pool here.", h("a", { href: "#/pools" }, "All pools"))];
    });
  }
  return [
    head("Pools", null, context.button("Create a pool", createPool), context.button("Import a pool", importPool)),
    shown(entry, (all) =>
      all.length
        ? h("div", { class: "stack" }, all.map((pool) => h("div", { class: "stack", key: pool.name }, summary(context, pool))))
        : card("No pool is imported", {}, h("p", { class: "muted" }, "Create one from disks or files, or import one.")),
    ),
  ];
}

function summary(context, pool) {
  return card(
    h("a", { href: `#/pools/${encodeURIComponent(pool.name)}` }, name(pool.name)),
    { tools: stateOf(levelOf(pool.health), wordOf(pool.health)) },
    h("div", { class: "stack" }, trouble(pool), h("div", {}, capacity(pool)), devices(context, pool)),
  );
}

function poolPage(context, pool) {
  const jobs = (context.store.use("/v1/jobs", "jobs").value ?? []).filter((job) => job.pool === pool.name);
  const isScrubbing = pool.scrub.state === "running";
  return [
    h("nav", { class: "crumbs", "aria-label": "Above" }, h("a", { href: "#/pools" }, "Pools"), h("span", { "aria-hidden": "true" }, "/")),
    head(
      name(pool.name),
      stateOf(levelOf(pool.health), wordOf(pool.health)),
      isScrubbing ? context.button("Pause the scrub", scrub, { pool: pool.name, how: "pause" }) : context.button(pool.scrub.state === "paused" ? "Go on with the scrub" : "Scrub", scrub, { pool: pool.name, how: "start" }),
      context.button("Add devices", addDevices, { pool: pool.name }),
      context.button("Clear failures", clearFailures, { pool: pool.name }),
      context.button("Export the pool", exportPool, { pool: pool.name }),
    ),
    h(
      "div",
      { class: "stack" },
      trouble(pool),
      card("Capacity", {}, capacity(pool)),
      card("Devices", { sub: deviceSummary(pool) }, devices(context, pool, true)),
      h(
        "div",
        { class: "two" },
        card("Checks", {}, scrubText(pool.scrub), jobs.length > 0 && h("div", { style: { "margin-top": "14px" } }, jobs.map((job) => jobView(context, job)))),
        card(
          "Facts",
          {},
          facts(
            ["Root dataset", datasetLink(pool.name)],
            ["Guid", h("span", { class: "mono" }, pool.guid)],
            ["Last durable state", `transaction group ${count(pool.txg)}`],
            pool.read_only && ["Access", "read-only"],
            pool.altroot && ["Mounted below", name(pool.altroot, "name mono")],
            pool.dedupratio > 1 && ["Deduplication", `${pool.dedupratio.toFixed(2)} to 1`],
            pool.expandable > 0 && ["Can grow by", bytes(pool.expandable)],
            pool.checkpoint && ["Checkpoint", `${moment(pool.checkpoint.created)}, holds ${bytes(pool.checkpoint.bytes)}`],
          ),
        ),
      ),
    ),
  ];
}

function trouble(pool) {
  const lines = [];
  if (pool.trouble) lines.push(notice(levelOf(pool.health) === "bad" ? "bad" : "warn", visible(pool.trouble), pool.action && visible(pool.action)));
  if (pool.space_low) lines.push(notice("warn", visible(pool.space_low)));
  if (pool.scrub_late) lines.push(notice("warn", "The last scrub is too long ago.", visible(pool.scrub_late)));
  if (pool.damage.length) {
    lines.push(notice("bad", h("strong", {}, `${plural(pool.damage.length, "place")} damaged`), h("span", {}, pool.damage.slice(0, 20).map((each) => [h("code", {}, name(each)), h("br", {})]))));
  }
  if (pool.waiting.length) {
    const names = pool.waiting.slice(0, 6).map((each) => [datasetLink(each), " "]);
    lines.push(notice("quiet", `${plural(pool.waiting.length, "dataset")} waiting for keys`, [names, pool.waiting.length > 6 && `and ${pool.waiting.length - 6} more`], h("a", { href: "#/keys" }, "Keys")));
  }
  return lines;
}

function scrubText(scrub) {
  if (scrub.state === "none") return h("p", { class: "muted" }, "This pool was never scrubbed. A scrub reads everything and repairs what has another copy.");
  if (scrub.state !== "finished") return null;
  const findings = scrub.errors ? h("strong", { class: "bad" }, `${plural(scrub.errors, "error")} could not be repaired`) : "no errors";
  return h("p", {}, `The last scrub ended ${ago(scrub.ended)}, after ${duration(scrub.ended - scrub.started)}: ${plural(scrub.repaired, "copy", "copies")} repaired, `, findings, ".");
}

function deviceSummary(pool) {
  const bad = pool.devices.filter((device) => levelOf(device.state) !== "good").length;
  return `${plural(pool.devices.length, "device")}${bad ? `, ${bad} not online` : ", all online"}`;
}

/** The tree: groups, their members, then cache devices and spares. */
function devices(context, pool, canAct = false) {
  return h("ul", { class: canAct ? "tree-list acting" : "tree-list", "aria-label": `Devices of ${pool.name}` }, groupsOf(pool).map((group) => groupView(context, pool, group, canAct)));
}

function groupsOf(pool) {
  const groups = new Map();
  for (const device of pool.devices) {
    const key = device.is_cache ? "cache" : device.group === null ? "spares" : String(device.group);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(device);
  }
  return [...groups].map(([key, members]) => ({ key, members, title: titleOf(key, members) }));
}

function titleOf(key, members) {
  if (key === "cache") return ["Cache", "Encrypted copies of records; it can be lost"];
  if (key === "spares") return ["Spares", "Take the place of a device that fails"];
  const [first] = members;
  const log = first.is_log ? " for logs" : "";
  if (first.parity) return [`RAID-Z${first.parity}${log}`, `${plural(members.length, "device")}, of which ${first.parity} can be lost`];
  if (members.length > 1) return [`Mirror${log}`, `${plural(members.length, "copy", "copies")} of everything`];
  return [first.is_log ? "Log" : "Single device", "No redundancy"];
}

function groupView(context, pool, group, canAct) {
  const [title, text] = group.title;
  return h(
    "li",
    { key: group.key },
    h("div", { class: "node" }, h("div", { class: "what" }, icon("group"), h("div", {}, h("strong", {}, title), h("small", {}, text)))),
    h("ul", { "aria-label": title }, group.members.map((device) => deviceView(context, pool, group, device, canAct))),
  );
}

function deviceView(context, pool, group, device, canAct) {
  const errors = [device.read && plural(device.read, "read error"), device.write && plural(device.write, "write error"), device.checksum && plural(device.checksum, "checksum error")].filter(Boolean);
  const more = [bytes(device.size), device.unused > 0 && `${bytes(device.unused)} unused`, device.replaces && "replaces another device", device.was_spare && "was a spare", ...errors].filter(Boolean);
  return h(
    "li",
    { key: device.guid },
    h(
      "div",
      { class: "node" },
      h("div", { class: "what" }, icon("disk"), h("div", {}, name(device.path, "name mono"), h("small", { class: errors.length ? "bad" : null }, more.join(" · ")))),
      stateOf(levelOf(device.state), wordOf(device.state)),
      canAct && deviceButtons(context, pool, group, device),
    ),
  );
}

function deviceButtons(context, pool, group, device) {
  const about = { pool: pool.name, device: device.path };
  const small = { className: "button plain" };
  const isMember = device.group !== null && !device.is_cache;
  const isMirror = isMember && !device.parity && group.members.length > 1;
  return h(
    "div",
    { class: "buttons" },
    isMember && context.button(["Replace", h("span", { class: "unseen" }, ` ${visible(device.path)}`)], replaceDevice, about, small),
    isMember && !device.parity && context.button(["Attach a mirror", h("span", { class: "unseen" }, ` to ${visible(device.path)}`)], attachDevice, about, small),
    isMirror && context.button(["Detach", h("span", { class: "unseen" }, ` ${visible(device.path)}`)], detachDevice, about, small),
    isMember && (["ONLINE", "SLOW"].includes(device.state) ? (isMirror || device.parity > 0) && context.button(["Take offline", h("span", { class: "unseen" }, ` ${visible(device.path)}`)], takeOffline, about, small) : context.button(["Take back", h("span", { class: "unseen" }, ` ${visible(device.path)}`)], takeOnline, about, small)),
  );
}
