// Lines over time, drawn anew with each sample.
//
//   h("line-chart", { props: { config: { label, samples, series, format, span } } })

import { h, render } from "./view.js";

const [LEFT, RIGHT, TOP, BOTTOM] = [72, 8, 8, 22];
const HEIGHT = 190;
// The least that the line of time shows, in seconds.
const SHORTEST = 60;

/**
 * `config`: `label`; `samples`, each with `time` in seconds; `series`, each `{name, className, of(sample)}`, whose
 * values may be `null`; `format(value)`; `span`, how many seconds are shown at most; `isBinary`, whether the scale is in
 * powers of two.
 */
class LineChart extends HTMLElement {
  #config = null;
  #width = 600;
  #at = null;
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
      this.#width = Math.max(200, Math.round(entry.contentRect.width));
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
    const { label, samples, series, format, isBinary } = this.#config;
    const end = samples.at(-1)?.time ?? Date.now() / 1000;
    const span = Math.min(this.#config.span, Math.max(SHORTEST, end - (samples[0]?.time ?? end)));
    const x = (time) => LEFT + ((time - end + span) / span) * (this.#width - LEFT - RIGHT);
    const shown = samples.filter((sample) => sample.time >= end - span);
    const top = ceiling(Math.max(0, ...shown.flatMap((sample) => series.map((one) => one.of(sample) ?? 0))), isBinary);
    const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
    const at = this.#at === null ? null : nearest(shown, this.#at, x);
    render(
      this,
      h(
        "svg",
        {
          role: "img",
          "aria-label": `${label}. ${spoken(series, shown.at(-1), format)}`,
          viewBox: `0 0 ${this.#width} ${HEIGHT}`,
          width: this.#width,
          height: HEIGHT,
          on: { pointermove: (event) => this.#point(event.offsetX), pointerleave: () => this.#point(null) },
        },
        [0, 0.5, 1].map((part) => [
          h("line", { class: "grid", x1: LEFT, x2: this.#width - RIGHT, y1: y(part * top), y2: y(part * top) }),
          h("text", { x: LEFT - 8, y: y(part * top) + 4, "text-anchor": "end" }, format(part * top)),
        ]),
        [span, span / 2, 0].map((before) =>
          h("text", { x: x(end - before), y: HEIGHT - 4, "text-anchor": before === span ? "start" : before ? "middle" : "end" }, before ? `${before < 120 ? `${Math.round(before)} s` : `${Math.round(before / 6) / 10} min`} ago` : "now"),
        ),
        series.map((one) => h("path", { class: `line ${one.className}`, d: path(shown, one, x, y) })),
        at && h("line", { class: "cursor", x1: x(at.time), x2: x(at.time), y1: TOP, y2: HEIGHT - BOTTOM }),
      ),
      h(
        "p",
        { class: "legend" },
        series.map((one) => h("span", {}, h("i", { class: one.className }), `${one.name} `, h("strong", { class: "num" }, valueOf(one, at ?? shown.at(-1), format)))),
        at && h("span", {}, `${Math.round(end - at.time)} s ago`),
      ),
    );
  }

  #point(at) {
    this.#at = at;
    this.#draw();
  }
}

function valueOf(one, sample, format) {
  const value = sample && one.of(sample);
  return value === null || value === undefined ? "–" : format(value);
}

function spoken(series, sample, format) {
  return series.map((one) => `${one.name} now ${valueOf(one, sample, format)}`).join(", ");
}

function path(samples, one, x, y) {
  let text = "";
  let isDown = false;
  for (const sample of samples) {
    const value = one.of(sample);
    if (value === null || value === undefined) {
      isDown = false;
      continue;
    }
    text += `${isDown ? "L" : "M"}${x(sample.time).toFixed(1)} ${y(value).toFixed(1)}`;
    isDown = true;
  }
  return text;
}

/** A round number that is not smaller. */
function ceiling(value, isBinary) {
  if (value <= 0) return isBinary ? 1024 : 1;
  if (isBinary) return 2 ** Math.ceil(Math.log2(value));
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}

function nearest(samples, at, x) {
  let best = null;
  for (const sample of samples) {
    if (!best || Math.abs(x(sample.time) - at) < Math.abs(x(best.time) - at)) best = sample;
  }
  return best;
}

customElements.define("line-chart", LineChart);
