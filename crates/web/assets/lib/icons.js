// Pictures of one line each, drawn on a grid of 20.

import { h } from "./view.js";

const SHAPES = {
  overview: ["M3 10.5 10 4l7 6.5", "M5 9v7.5h10V9", "M8.5 16.5V12h3v4.5"],
  pools: ["M3.5 5.5c0-1.4 2.9-2.5 6.5-2.5s6.5 1.1 6.5 2.5S13.6 8 10 8 3.5 6.9 3.5 5.5z", "M3.5 5.5v9c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5v-9", "M3.5 10c0 1.4 2.9 2.5 6.5 2.5s6.5-1.1 6.5-2.5"],
  datasets: ["M3 5.5A1.5 1.5 0 0 1 4.5 4h3.2l2 2h5.8A1.5 1.5 0 0 1 17 7.5v7a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 14.5z"],
  volume: ["M3.5 6.5 10 3l6.5 3.5v7L10 17l-6.5-3.5z", "M3.5 6.5 10 10l6.5-3.5", "M10 10v7"],
  snapshots: ["M10 3a7 7 0 1 1-6.5 4.4", "M3 3.5v4h4", "M10 6.5V10l2.5 1.8"],
  copies: ["M7 7V3.5h9.5V13H13", "M3.5 7H13v9.5H3.5z"],
  keys: ["M12.5 11.5a4 4 0 1 0-3.8-2.7L3 14.5V17h2.5v-2H7.5v-2h1.7l1-1z", "M13.5 6.5v.01"],
  exports: ["M7.5 12.5a3.2 3.2 0 0 1 0-4.6l2-2a3.2 3.2 0 0 1 4.6 4.6l-1 1", "M12.5 7.5a3.2 3.2 0 0 1 0 4.6l-2 2a3.2 3.2 0 0 1-4.6-4.6l1-1"],
  speed: ["M3 14a7 7 0 1 1 14 0", "M10 14l3.5-4.5", "M3 14h1.5M15.5 14H17M10 7v1.5"],
  activity: ["M3 10.5h3L8.5 5l3 10.5L14 10.5h3"],
  rights: ["M7.5 9.5a2.9 2.9 0 1 0 0-5.8 2.9 2.9 0 0 0 0 5.8z", "M2.5 16.5c0-2.8 2.2-4.5 5-4.5s5 1.7 5 4.5", "M13 4.2a2.9 2.9 0 0 1 0 5M14.3 12.3c2 .5 3.2 2 3.2 4.2"],
  plus: ["M10 4v12M4 10h12"],
  chevron: ["M7.5 5l5 5-5 5"],
  menu: ["M3 5.5h14M3 10h14M3 14.5h14"],
  locked: ["M5 9h10v8H5z", "M7 9V6.5a3 3 0 0 1 6 0V9"],
  unlocked: ["M5 9h10v8H5z", "M7 9V6a3 3 0 0 1 5.8-1"],
  disk: ["M4 4h12v12H4z", "M7 12.8h.01M10 12.8h6M4 10h12"],
  group: ["M4 4h5v5H4zM11 4h5v5h-5zM4 11h5v5H4zM11 11h5v5h-5z"],
};

/** A picture that says nothing that is not beside it in words. */
export function icon(which, className) {
  return h(
    "svg",
    {
      class: className,
      viewBox: "0 0 20 20",
      fill: "none",
      stroke: "currentColor",
      "stroke-width": "1.5",
      "stroke-linecap": "round",
      "stroke-linejoin": "round",
      "aria-hidden": "true",
      focusable: "false",
    },
    SHAPES[which].map((d) => h("path", { d })),
  );
}

// Each state has a shape of its own, so that the colour is not needed.
const MARKS = {
  good: [["path", { d: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13z", fill: "currentColor" }], ["path", { d: "M5 8.2l2.1 2.1L11 6.2", fill: "none", stroke: "var(--sheet)", "stroke-width": "1.7" }]],
  warn: [["path", { d: "M8 1.3 15.3 14.3H.7z", fill: "currentColor", "stroke-linejoin": "round" }], ["path", { d: "M8 6v4M8 12v.3", fill: "none", stroke: "var(--sheet)", "stroke-width": "1.7" }]],
  bad: [["path", { d: "M5 1h6l4 4v6l-4 4H5l-4-4V5z", fill: "currentColor" }], ["path", { d: "M5.3 5.3l5.4 5.4M10.7 5.3l-5.4 5.4", fill: "none", stroke: "var(--sheet)", "stroke-width": "1.7" }]],
  quiet: [["circle", { cx: "8", cy: "8", r: "5.7", fill: "none", stroke: "currentColor", "stroke-width": "1.7" }]],
};

/** The shape of a state: `good`, `warn`, `bad` or `quiet`. */
export function mark(level) {
  return h(
    "svg",
    { viewBox: "0 0 16 16", "aria-hidden": "true", focusable: "false", class: level },
    MARKS[level].map(([tag, attrs]) => h(tag, attrs)),
  );
}

/** A state: shape, colour and word. */
export function stateOf(level, word) {
  return h("span", { class: `state ${level}` }, mark(level), h("span", {}, word));
}

/** The picture of the program: a door with a wheel. */
export function logo() {
  return h(
    "svg",
    { viewBox: "0 0 32 32", "aria-hidden": "true", focusable: "false", fill: "none", stroke: "currentColor", "stroke-width": "2.4", "stroke-linecap": "round" },
    h("rect", { x: "3.5", y: "3.5", width: "25", height: "25", rx: "6" }),
    h("circle", { cx: "16", cy: "16", r: "5.5" }),
    h("path", { d: "M16 7.5v3M16 21.5v3M7.5 16h3M21.5 16h3" }),
  );
}
