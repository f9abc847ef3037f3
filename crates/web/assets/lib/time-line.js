// Snapshots on a line of time, one lane for each kind, with how many of each kind are kept.
//
//   h("time-line", { props: { config: { label, lanes, from, to } } })

import { h, render } from "./view.js";
import { moment, plural } from "./format.js";

const [LEFT, RIGHT, LANE, TOP] = [104, 14, 38, 6];
const AXIS = 26;

/** `config`: `label`; `lanes`, each `{name, keeps, times, level}` with `times` in seconds; `from` and `to`. */
class TimeLine extends HTMLElement {
  #config = null;
  #width = 600;
  #watch = null;

  set config(config) {
    this.#config = config;
    this.#draw();
  }

  get config() {
    return this.#config;
  }

  connectedCallback() {
    this.#watch = new ResizeObserver(([entry]) => {
      this.#width = Math.max(240, Math.round(entry.contentRect.width));
      this.#draw();
    });
    this.#watch.observe(this);
    this.#draw();
  }

  disconnectedCallback() {
    this.#watch.disconnect();
  }

  #draw() {
    if (!this.#config || !this.isConnected) return;
    const { label, lanes, from, to } = this.#config;
    const height = TOP + lanes.length * LANE + AXIS;
    const end = this.#width - RIGHT;
    const x = (time) => LEFT + ((time - from) / Math.max(1, to - from)) * (end - LEFT);
    const ticks = ticksOf(from, to, this.#width < 480 ? 3 : 6);
    render(
      this,
      h(
        "svg",
        { role: "img", "aria-label": `${label}. ${lanes.map(spoken).join(" ")}`, viewBox: `0 0 ${this.#width} ${height}`, width: this.#width, height },
        ticks.map(({ time, text }) => [
          h("line", { class: "grid", x1: x(time), x2: x(time), y1: TOP, y2: height - AXIS + 4 }),
          h("text", { x: x(time), y: height - 6, "text-anchor": "middle" }, text),
        ]),
        lanes.map((lane, i) => {
          const middle = TOP + i * LANE + LANE / 2;
          return [
            h("text", { class: "lane", x: 0, y: middle - 1 }, lane.name),
            h("text", { x: 0, y: middle + 13 }, keeping(lane)),
            h("line", { class: "rail", x1: LEFT, x2: end, y1: middle, y2: middle }),
            h("path", { class: `marks ${lane.level}`, d: marks(lane.times, from, to, x, middle) }),
          ];
        }),
      ),
    );
  }
}

function keeping(lane) {
  return lane.keeps ? `${lane.times.length} of ${lane.keeps}` : plural(lane.times.length, "snapshot");
}

function spoken({ name, keeps, times }) {
  if (!times.length) return `${name}: none${keeps ? ` of ${keeps} that are kept` : ""}.`;
  const first = moment(Math.min(...times.slice(0, 1), ...times.slice(-1)));
  return `${name}: ${plural(times.length, "snapshot")}${keeps ? ` of ${keeps} that are kept` : ""}, the oldest from ${first}.`;
}

/** One stroke for each pixel that has snapshots: ten thousand of them are still one path. */
function marks(times, from, to, x, middle) {
  const columns = new Set(times.filter((time) => time >= from && time <= to).map((time) => Math.round(x(time) / 3) * 3));
  return [...columns].map((at) => `M${at} ${middle - 9}v18`).join("");
}

const STEPS = [60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400, 30 * 86400, 91 * 86400, 365 * 86400];

function ticksOf(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? 1825 * 86400;
  const zone = new Date(from * 1000).getTimezoneOffset() * 60;
  const format = new Intl.DateTimeFormat("en-GB", step < 86400 ? { hour: "2-digit", minute: "2-digit" } : step < 91 * 86400 ? { day: "numeric", month: "short" } : { month: "short", year: "numeric" });
  const ticks = [];
  for (let time = Math.ceil((from - zone) / step) * step + zone; time <= to; time += step) {
    ticks.push({ time, text: format.format(new Date(time * 1000)) });
  }
  return ticks;
}

customElements.define("time-line", TimeLine);
