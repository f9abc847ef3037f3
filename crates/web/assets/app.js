// The frame of the page: navigation, the page that the address names, dialogs, and the session.

import { get, logIn, logOut, openLink, Failure } from "./lib/api.js";
import { Dialogs, actButton } from "./lib/dialog.js";
import { icon, logo, mark } from "./lib/icons.js";
import { Rates } from "./lib/rates.js";
import { Store } from "./lib/store.js";
import { h, render, visible } from "./lib/view.js";
import { activity } from "./pages/activity.js";
import { access } from "./pages/access.js";
import { copies } from "./pages/copies.js";
import { dataset } from "./pages/dataset.js";
import { datasets } from "./pages/datasets.js";
import { exports_ } from "./pages/exports.js";
import { keys } from "./pages/keys.js";
import { overview } from "./pages/overview.js";
import { performance_ } from "./pages/performance.js";
import { pools } from "./pages/pools.js";
import { snapshots } from "./pages/snapshots.js";

const everyone = () => true;
const admins = (session) => session.admin;
const noTenants = (session) => !session.zone;

// Path, title, picture, page, and whose page it is.
const PAGES = [
  ["", "Overview", "overview", overview, everyone],
  ["pools", "Pools", "pools", pools, admins],
  ["datasets", "Datasets", "datasets", datasets, everyone],
  ["snapshots", "Snapshots", "snapshots", snapshots, everyone],
  ["copies", "Copies", "copies", copies, noTenants],
  ["keys", "Keys", "keys", keys, everyone],
  ["exports", "Exports", "exports", exports_, admins],
  ["performance", "Performance", "speed", performance_, admins],
  ["activity", "Activity", "activity", activity, admins],
  ["access", "Access", "rights", access, everyone],
];

const root = document.getElementById("app");
const dialogs = document.body.appendChild(document.createElement("div"));

let session = null;
let login = null;
let told = [];
let isMenuOpen = false;
let isDrawn = true;

// A browser session ends at the server if nobody uses it. Requests that nobody asked for must not keep it alive: after
// so many milliseconds without a hand on it the page rests.
const IDLE = 20 * 60 * 1000;
// The server ends the session ten minutes later. Then the page finds out, so that it shows nothing any more.
const OVER = 31 * 60 * 1000;
let touched = Date.now();
const isIdle = () => isEnding() && Date.now() - touched > IDLE;
/** Whether the session ends by itself. At the socket it does not. */
const isEnding = () => session !== null && session.via !== "socket";

const store = new Store(draw, expired, isIdle);
const rates = new Rates(draw, isIdle);
const dialog = new Dialogs(dialogs, acted, (text) => tell("bad", text), expired);

/** What a page gets: data, what it keeps while the session lasts, and ways to act. */
const context = {
  store,
  rates,
  kept: {},
  draw,
  get session() {
    return session;
  },
  open: (act, about) => dialog.open(act, about ?? {}),
  button: (label, act, about, more) => actButton(label, () => dialog.open(act, about ?? {}), more),
};

/** Draws soon, once for all that changed meanwhile. */
function draw() {
  if (!isDrawn) return;
  isDrawn = false;
  queueMicrotask(() => {
    isDrawn = true;
    frame();
  });
}

function route() {
  const [page, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return { page, rest: rest.filter(Boolean).map(decoded) };
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

function frame() {
  if (login) return render(root, loginPage());
  if (!session) return render(root, h("div", { class: "login" }, h("p", { class: "muted", role: "status" }, "Loading…")));
  const { page, rest } = route();
  const [path, title, , of] = PAGES.find(([path]) => path === page) ?? PAGES[0];
  store.begin();
  const view = path === "datasets" && rest.length ? dataset(context, rest.join("/")) : of(context, rest);
  document.title = `${rest.length ? rest.join("/") : title} · Strongroom`;
  render(
    root,
    h("a", { class: "skip", href: "#title", on: { click: skip } }, "Skip to the page"),
    h(
      "div",
      { class: "frame" },
      h("div", { class: isMenuOpen ? "side open" : "side" }, side(path)),
      h("main", { id: "main", tabindex: -1 }, h("div", { key: `${path}/${rest.join("/")}` }, failure(), view)),
    ),
    h("div", { class: "told", role: "status" }, told.map(toldView)),
  );
  store.end();
}

function toldView({ key, level, text }) {
  const dismiss = level === "bad" && h("button", { type: "button", class: "button plain", on: { click: () => untell(key) } }, "Dismiss");
  return h("div", { class: `notice ${level}`, key, role: level === "bad" ? "alert" : null }, mark(level), h("p", {}, visible(text)), dismiss);
}

function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function side(path) {
  const pages = PAGES.filter(([, , , , isFor]) => isFor(session));
  const health = session.admin ? store.use("/v1/health", "health").value : null;
  const level = { warning: "warn", critical: "bad" }[health?.status];
  return [
    h("header", {}, h("a", { class: "brand", href: "#/" }, logo(), "Strongroom")),
    h("button", { type: "button", class: "button menu", "aria-expanded": String(isMenuOpen), "aria-controls": "navigation", on: { click: () => setMenu(!isMenuOpen) } }, icon("menu"), "Menu"),
    h(
      "nav",
      { class: "fold", id: "navigation", "aria-label": "Pages" },
      h(
        "ul",
        {},
        pages.map(([to, title, picture]) =>
          h(
            "li",
            {},
            h(
              "a",
              { href: `#/${to}`, "aria-current": to === path ? "page" : null },
              icon(picture),
              title,
              to === "" && level && h("span", { class: `mark state ${level}` }, mark(level), h("span", { class: "unseen" }, "needs attention")),
            ),
          ),
        ),
      ),
    ),
    h(
      "footer",
      { class: "fold" },
      h("p", {}, store.isLive ? "Live" : "Refreshed every few seconds"),
      h("p", {}, visible(session.user ?? ""), session.zone ? ` in zone ${visible(session.zone)}` : ""),
      isEnding() && h("p", {}, h("button", { type: "button", class: "button link", on: { click: leave } }, "Log out")),
    ),
  ];
}

function setMenu(isOpen) {
  isMenuOpen = isOpen;
  draw();
}

/** Says that what is shown is old. */
function failure() {
  if (!store.failure) return null;
  return h(
    "div",
    { class: "notice bad", role: "alert", key: "failure", style: { "margin-bottom": "20px" } },
    mark("bad"),
    h("div", {}, h("p", {}, visible(store.failure.message)), h("p", {}, "What is shown here may be old. The page tries again by itself.")),
  );
}

function acted(message, next) {
  const key = tell("good", message);
  setTimeout(() => untell(key), 8000);
  if (next) location.hash = next;
  store.refresh();
}

/** Shows what became of an act. A failure stays until it is dismissed. */
function tell(level, text) {
  const key = `told-${Date.now()}`;
  told = [...told.slice(-2), { key, level, text }];
  draw();
  return key;
}

function untell(key) {
  told = told.filter((one) => one.key !== key);
  draw();
}

function loginPage() {
  return h(
    "main",
    { class: "login" },
    h(
      "form",
      { class: "card", on: { submit: enter } },
      h("div", { class: "brand" }, logo(), h("h1", { id: "title" }, "Strongroom")),
      login.text && h("div", { class: "notice", role: "status" }, mark("quiet"), h("p", {}, visible(login.text))),
      login.isByLink ? h("p", {}, "For another link, run ", h("code", {}, "strongroom web open"), " on the machine of the browser.") : tokenFields(),
    ),
  );
}

function tokenFields() {
  return [
    h("div", { class: "field" }, h("label", { for: "token" }, "Token"), h("input", { id: "token", type: "password", required: true, autocomplete: "current-password", "aria-describedby": "token-hint" }), h("span", { class: "hint", id: "token-hint" }, "Root makes one with ", h("code", {}, "strongroom web token create"), ".")),
    login.failure && h("div", { class: "notice bad", role: "alert" }, mark("bad"), h("p", {}, visible(login.failure))),
    h("button", { type: "submit", class: "button main", disabled: login.busy }, "Log in"),
  ];
}

async function enter(event) {
  event.preventDefault();
  const field = event.target.querySelector("#token");
  login = { busy: true };
  draw();
  try {
    session = await logIn(field.value.trim());
    login = null;
    begin();
  } catch (failure) {
    login = { failure: failure.message };
  }
  field.value = "";
  draw();
}

/** The code of a link. It leaves the address, and so the history, at once. */
function takeCode() {
  const code = /^#open=([0-9a-f]+)$/.exec(location.hash)?.[1];
  if (code) history.replaceState(null, "", "/");
  return code;
}

/** A code is right once; a browser that has the session may open the link again. */
async function enterByLink(code) {
  try {
    return await openLink(code);
  } catch (failure) {
    return get("/v1/session").catch(() => {
      throw failure;
    });
  }
}

async function leave() {
  await logOut().catch(() => {});
  end("You are logged out.");
}

function expired() {
  end(session ? "The session has expired. Log in again." : "");
}

function end(text) {
  if (login) return;
  const isByLink = session?.via === "link";
  dialog.close();
  store.clear();
  rates.stop();
  rates.samples = [];
  context.kept = {};
  session = null;
  told = [];
  login = { text, isByLink };
  draw();
  queueMicrotask(() => document.getElementById("token")?.focus());
}

function begin() {
  store.listen();
  store.refresh();
  draw();
}

async function start(code = takeCode()) {
  draw();
  try {
    session = code ? await enterByLink(code) : await get("/v1/session");
    begin();
  } catch (failure) {
    if (code && failure.kind === "login") {
      login = { text: failure.message, isByLink: true };
      return draw();
    }
    if (failure instanceof Failure && failure.kind === "login") return expired();
    render(root, h("main", { class: "login" }, h("div", {}, h("h1", {}, "Strongroom"), h("p", { role: "alert" }, visible(failure.message)))));
    setTimeout(() => start(code), 3000);
  }
}

addEventListener("hashchange", () => {
  setMenu(false);
  scrollTo(0, 0);
  // The focus goes to the new page, so that a reader says its title.
  queueMicrotask(() => document.getElementById("main")?.focus({ preventScroll: true }));
});

for (const sign of ["pointermove", "keydown", "wheel", "touchstart"]) {
  addEventListener(
    sign,
    () => {
      const wasIdle = isIdle();
      touched = Date.now();
      if (wasIdle) begin();
    },
    { passive: true },
  );
}

/** Whether a request failed because the session is over. A site that was opened by a link ends with it. */
const isOver = ({ kind }) => kind === "login" || (kind === "offline" && session?.via === "link");

setInterval(() => {
  if (!isIdle()) return;
  store.rest();
  if (Date.now() - touched > OVER) get("/v1/session").catch((failure) => isOver(failure) && expired());
}, 60000);

start();
