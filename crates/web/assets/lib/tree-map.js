// Areas that are as large as what they stand for.
//
//   h("tree-map", { props: { config: { label, tiles } } })

import { h, render, visible } from "./view.js";
import { bytes, percent } from "./format.js";

// More tiles than this become one.
const MOST = 60;

/**
 * `config`: `label`; `tiles`, each `{key, title, size, snapshots, hasBelow, href}`, where `snapshots` is a part of `size`;
 * `onOpen(key)` for tiles with more below, which are buttons. The others are links.
 */
class TreeMap extends HTMLElement {
  #config = null;
  #size = [0, 0];
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
      this.#size = [entry.contentRect.width, entry.contentRect.height];
      this.#draw();
    });
    this.#watch.observe(this);
  }

  disconnectedCallback() {
    this.#watch.disconnect();
  }

  #draw() {
    const [width, height] = this.#size;
    if (!this.#config || !width || !height) return;
    const tiles = largest(this.#config.tiles);
    const places = squarify(tiles.map((tile) => tile.size), width, height);
    render(
      this,
      h("ul", { "aria-label": this.#config.label }, tiles.map((tile, i) => view(tile, places[i], this.#config.onOpen))),
    );
  }
}

/** The largest tiles, the rest as one. */
function largest(tiles) {
  const sorted = tiles.filter((tile) => tile.size > 0).sort((a, b) => b.size - a.size);
  if (sorted.length <= MOST) return sorted;
  const rest = sorted.slice(MOST - 1);
  const sum = (of) => rest.reduce((total, tile) => total + of(tile), 0);
  const others = { key: "\n", title: `${rest.length} smaller`, size: sum((tile) => tile.size), snapshots: sum((tile) => tile.snapshots) };
  return [...sorted.slice(0, MOST - 1), others].sort((a, b) => b.size - a.size);
}

function view(tile, [left, top, width, height], onOpen) {
  const share = `snapshots ${percent(tile.snapshots, tile.size)}`;
  const fits = (w, h) => width > w && height > h;
  // What has no place is still said.
  const line = (text, className, isSeen) => h("span", { class: isSeen ? className : "unseen" }, text, " ");
  return h(
    "li",
    {
      key: tile.key,
      class: "tile",
      style: { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` },
    },
    h(
      tile.hasBelow ? "button" : tile.href ? "a" : "div",
      {
        class: fits(64, 34) ? "tile-inside" : "tile-inside tiny",
        type: tile.hasBelow ? "button" : null,
        href: tile.hasBelow ? null : tile.href,
        title: visible(`${tile.title} ${bytes(tile.size)} ${share}`),
        on: tile.hasBelow ? { click: () => onOpen(tile.key) } : {},
      },
      h("span", { class: "tile-snapshots", style: { height: `${tile.size ? (100 * tile.snapshots) / tile.size : 0}%` } }),
      line(h("bdi", {}, visible(tile.title)), "tile-title", fits(64, 34)),
      line(bytes(tile.size), "tile-size num", fits(64, 52)),
      line(share, "tile-size", fits(116, 76) && tile.snapshots > 0),
    ),
  );
}

/**
 * Divides a rectangle into areas in proportion to `sizes`, which fall, so that each is nearly a square (Bruls,
 * Huizing and van Wijk, "Squarified treemaps", 2000). Returns `[left, top, width, height]` of each.
 */
export function squarify(sizes, width, height) {
  const total = sizes.reduce((sum, size) => sum + size, 0);
  const areas = sizes.map((size) => (size * width * height) / total);
  const places = [];
  let [left, top] = [0, 0];
  let from = 0;
  while (from < areas.length) {
    const side = Math.min(width, height);
    let to = from + 1;
    while (to < areas.length && worst(areas.slice(from, to + 1), side) <= worst(areas.slice(from, to), side)) to += 1;
    const row = areas.slice(from, to);
    const depth = row.reduce((sum, area) => sum + area, 0) / side;
    let along = 0;
    for (const area of row) {
      const length = area / depth;
      places.push(width >= height ? [left, top + along, depth, length] : [left + along, top, length, depth]);
      along += length;
    }
    if (width >= height) [left, width] = [left + depth, width - depth];
    else [top, height] = [top + depth, height - depth];
    from = to;
  }
  return places;
}

/** How far the least square of the areas is from a square, if they lie in a row along `side`. */
function worst(areas, side) {
  const sum = areas.reduce((total, area) => total + area, 0);
  const [most, least] = [Math.max(...areas), Math.min(...areas)];
  return Math.max((side * side * most) / (sum * sum), (sum * sum) / (side * side * least));
}

customElements.define("tree-map", TreeMap);
