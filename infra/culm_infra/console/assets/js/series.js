/** Recent values of rates and lags, kept in the browser in rings of fixed size, and the lines that show them. */

import { setAttribute, svg } from "./dom.js";

const POINTS = 60;

/** The last values of one number; unknown values are gaps. */
class Ring {
  constructor() {
    this._values = new Float64Array(POINTS).fill(NaN);
    this._next = 0;
    this.seen = 0;
  }

  push(value) {
    this._values[this._next] = typeof value === "number" ? value : NaN;
    this._next = (this._next + 1) % POINTS;
  }

  /** Oldest first. */
  *[Symbol.iterator]() {
    for (let at = 0; at < POINTS; at += 1) yield this._values[(this._next + at) % POINTS];
  }
}

/** Rings by name; those that a document no longer has are removed, so that memory is bounded by one document. */
export class History {
  constructor() {
    this._rings = new Map();
    this._round = 0;
  }

  /** Take the values of one document: an iterable of [name, value]. */
  record(values) {
    this._round += 1;
    for (const [name, value] of values) {
      let ring = this._rings.get(name);
      if (ring === undefined) this._rings.set(name, (ring = new Ring()));
      ring.push(value);
      ring.seen = this._round;
    }
    for (const [name, ring] of this._rings) if (ring.seen !== this._round) this._rings.delete(name);
  }

  get(name) {
    return this._rings.get(name) ?? null;
  }
}

/** A small line without axes; the number beside it has the value, so that it is hidden from screen readers. */
export class Sparkline {
  constructor(width = 64, height = 18) {
    this._size = [width, height];
    this._area = svg("path", { class: "area" });
    this._line = svg("path", { class: "line" });
    const box = { class: "spark", viewBox: `0 0 ${width} ${height}`, width, height, preserveAspectRatio: "none" };
    this.element = svg("svg", { ...box, "aria-hidden": "true" }, this._area, this._line);
  }

  update(ring) {
    const [width, height] = this._size;
    let highest = 0;
    for (const value of ring ?? []) if (value > highest) highest = value;
    let line = "";
    let area = "";
    let at = 0;
    let left = -1;
    let right = 0;
    for (const value of ring ?? []) {
      const x = ((at / (POINTS - 1)) * width).toFixed(1);
      at += 1;
      if (Number.isNaN(value)) {
        if (left >= 0) area += `L${right} ${height}L${left} ${height}Z`;
        left = -1;
        continue;
      }
      const y = (height - 1.5 - (highest > 0 ? value / highest : 0) * (height - 3)).toFixed(1);
      line += `${left < 0 ? "M" : "L"}${x} ${y}`;
      area += `${left < 0 ? "M" : "L"}${x} ${y}`;
      if (left < 0) left = x;
      right = x;
    }
    if (left >= 0) area += `L${right} ${height}L${left} ${height}Z`;
    setAttribute(this._line, "d", line);
    setAttribute(this._area, "d", area);
  }
}
