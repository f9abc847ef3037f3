// A list of any length, of which only the rows in sight are in the document.
//
//   h("long-list", { label, role: "treegrid" }, props: { config: { columns, rows, ... } })

import { h, render } from "./view.js";

const HEIGHT = 44;
// Rows outside of the sight on each side.
const MORE = 8;

/**
 * `config`: `label`; `columns`, each `{name, size, isWide, isNumber, cell(row)}`, of which those that are wide go away
 * on a narrow screen; `rows`, each with a `key` and for trees `level`, `isOpen` (absent without children), `position`
 * and `of`; `onOpen(row)`; `onFold(row, isOpen)`; `empty`; `foot`; `current`, the key of a row.
 */
class LongList extends HTMLElement {
  #config = null;
  #active = 0;
  #top = 0;
  #height = 600;
  #watch = null;

  set config(config) {
    const key = this.#config?.rows[this.#active]?.key;
    this.#config = config;
    const at = key === undefined ? -1 : config.rows.findIndex((row) => row.key === key);
    this.#active = at >= 0 ? at : Math.min(this.#active, Math.max(0, config.rows.length - 1));
    this.#draw();
  }

  get config() {
    return this.#config;
  }

  connectedCallback() {
    this.#watch = new ResizeObserver(() => this.#measure());
    this.#watch.observe(this);
    this.#draw();
  }

  disconnectedCallback() {
    this.#watch.disconnect();
  }

  get #body() {
    return this.querySelector(".list-body");
  }

  #measure() {
    const height = this.#body?.clientHeight ?? 0;
    if (height > this.#height) {
      this.#height = height;
      this.#draw();
    }
  }

  #draw() {
    if (!this.#config || !this.isConnected) return;
    const { columns, rows, label, isTree, empty, foot } = this.#config;
    const [from, to] = [Math.max(0, Math.floor(this.#top / HEIGHT) - MORE), Math.ceil((this.#top + this.#height) / HEIGHT) + MORE];
    const seen = rows.slice(from, to).map((row, i) => this.#row(row, from + i));
    // The row with the focus stays, so that the focus does.
    const kept = rows[this.#active];
    if (kept && (this.#active < from || this.#active >= to)) seen.push(this.#row(kept, this.#active));
    const grid = h(
      "div",
      { role: isTree ? "treegrid" : "grid", "aria-label": label, "aria-rowcount": rows.length + 1, "aria-colcount": columns.length },
      h(
        "div",
        { role: "rowgroup" },
        h(
          "div",
          { role: "row", class: "list-row list-head", "aria-rowindex": 1 },
          columns.map((column) => h("div", { role: "columnheader", class: classes(column) }, column.name)),
        ),
      ),
      h(
        "div",
        { class: "list-body", role: "rowgroup", on: { scroll: (event) => this.#scrolled(event), keydown: (event) => this.#key(event) } },
        h("div", { class: "list-space", role: "presentation", style: { height: `${rows.length * HEIGHT}px` } }, seen),
      ),
    );
    this.style.setProperty("--columns", columns.map((column) => column.size).join(" "));
    this.style.setProperty("--narrow-columns", columns.filter((column) => !column.isWide).map((column) => column.narrow ?? column.size).join(" "));
    render(this, rows.length ? grid : h("p", { class: "list-empty" }, empty), foot ? h("div", { class: "list-foot" }, foot) : null);
  }

  #row(row, index) {
    const { columns, current, onOpen, onFold } = this.#config;
    return h(
      "div",
      {
        key: row.key,
        role: "row",
        class: row.key === current ? "list-row current" : "list-row",
        "aria-rowindex": index + 2,
        "aria-level": row.level,
        "aria-expanded": row.isOpen === undefined ? null : String(row.isOpen),
        "aria-setsize": row.of,
        "aria-posinset": row.position,
        tabindex: index === this.#active ? 0 : -1,
        "data-index": index,
        style: { transform: `translateY(${index * HEIGHT}px)` },
        on: {
          focusin: () => this.#activate(index),
          dblclick: () => onOpen?.(row),
        },
      },
      columns.map((column) => h("div", { role: "gridcell", class: classes(column) }, column.cell(row, { onFold }))),
    );
  }

  #activate(index) {
    if (index === this.#active) return;
    this.#active = index;
    this.#draw();
  }

  #scrolled(event) {
    this.#top = event.currentTarget.scrollTop;
    this.#draw();
  }

  #key(event) {
    const { rows, onOpen, onFold } = this.#config;
    const row = rows[this.#active];
    const page = Math.max(1, Math.floor(this.#body.clientHeight / HEIGHT) - 1);
    const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length };
    const onRow = event.target.getAttribute("role") === "row";
    if (event.key in moves) {
      this.#focus(Math.min(rows.length - 1, Math.max(0, this.#active + moves[event.key])));
    } else if (!onRow) {
      return;
    } else if (event.key === "Enter") {
      onOpen?.(row);
    } else if (event.key === "ArrowRight" && row.isOpen === false) {
      onFold?.(row, true);
    } else if (event.key === "ArrowLeft" && row.isOpen) {
      onFold?.(row, false);
    } else if (event.key === "ArrowLeft" && row.level > 1) {
      let at = this.#active;
      while (at > 0 && rows[at].level >= row.level) at -= 1;
      this.#focus(at);
    } else {
      return;
    }
    event.preventDefault();
  }

  #focus(index) {
    this.#active = index;
    const body = this.#body;
    const [top, bottom] = [index * HEIGHT, (index + 1) * HEIGHT];
    if (top < body.scrollTop) body.scrollTop = top;
    else if (bottom > body.scrollTop + body.clientHeight) body.scrollTop = bottom - body.clientHeight;
    this.#top = body.scrollTop;
    this.#draw();
    this.querySelector(`[data-index="${index}"]`)?.focus({ preventScroll: true });
  }
}

function classes(column) {
  return [column.isWide && "wide", column.isNumber && "num", column.isTree && "tree"].filter(Boolean).join(" ") || null;
}

customElements.define("long-list", LongList);
