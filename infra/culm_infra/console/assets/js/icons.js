/** A shape and a word for every state, so that no colour stands alone. */

import { h, svg } from "./dom.js";

/** Per state: its word, its tone (which has the colour), and the shape. */
const STATES = {
  ready: ["Ready", "good", "dot"],
  running: ["Running", "good", "dot"],
  ok: ["OK", "good", "dot"],
  readable: ["Readable", "good", "dot"],
  not_ready: ["Not ready", "warn", "half"],
  done: ["Done", "good", "dot"],
  starting: ["Starting", "warn", "half"],
  restarting: ["Restarting", "warn", "half"],
  lagging: ["Lagging", "warn", "half"],
  waiting: ["Waiting", "warn", "half"],
  draining: ["Draining", "info", "down"],
  stopping: ["Stopping", "info", "down"],
  down: ["Down", "bad", "cross"],
  stalled: ["Stalled", "bad", "cross"],
  failed: ["Failed", "bad", "cross"],
  stopped: ["Stopped", "bad", "cross"],
  unreadable: ["Not readable", "bad", "bar"],
  refused: ["Refused", "bad", "bar"],
  older: ["Older version", "warn", "diamond"],
  unknown: ["Unknown", "none", "ring"],
};

const SHAPES = {
  dot: () => [svg("circle", { cx: 6, cy: 6, r: 4.2 })],
  ring: () => [svg("circle", { cx: 6, cy: 6, r: 4, class: "line" })],
  half: () => [svg("circle", { cx: 6, cy: 6, r: 4.2, class: "line" }), svg("path", { d: "M6 1.8a4.2 4.2 0 0 1 0 8.4z" })],
  down: () => [svg("path", { d: "M6 10.4 1.6 3h8.8z" })],
  cross: () => [svg("rect", { x: 1, y: 1, width: 10, height: 10, rx: 2 }), svg("path", { d: "m4 4 4 4m0-4-4 4", class: "cut" })],
  bar: () => [svg("circle", { cx: 6, cy: 6, r: 5 }), svg("path", { d: "M3.6 6h4.8", class: "cut" })],
  diamond: () => [svg("path", { d: "M6 .8 11.2 6 6 11.2.8 6z" })],
};

/** Return the word of a state; a state that the page does not know is its own word. */
export const stateWord = (state) => STATES[state]?.[0] ?? String(state ?? "Unknown").replaceAll("_", " ");

export const stateTone = (state) => STATES[state]?.[1] ?? "none";

/** Return the shape of a state; it is hidden from screen readers because the word stands beside it. */
export function shape(state) {
  const name = STATES[state]?.[2] ?? "ring";
  return svg("svg", { class: "shape", viewBox: "0 0 12 12", "aria-hidden": "true" }, ...SHAPES[name]());
}

/** Return a badge of shape and word. */
export const badge = (state) => h("span", { class: "badge", "data-tone": stateTone(state) }, shape(state), stateWord(state));

/** Write a state into an element that `badge` made or an empty `span`, only if it changed. */
export function setBadge(element, state) {
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  element.className = "badge";
  element.dataset.tone = stateTone(state);
  element.replaceChildren(shape(state), stateWord(state));
}

const SEVERITIES = [null, ["lagging", "worth a look"], ["not_ready", "needs attention"], ["down", "failed"]];

/** Return a shape with hidden words for a severity from 1 to 3, or null. */
export function severityMark(severity) {
  const known = SEVERITIES[severity] ?? null;
  if (known === null) return null;
  return h("span", { class: "mark", "data-tone": stateTone(known[0]), title: known[1] }, shape(known[0]), h("span", { class: "unseen" }, `${known[1]}: `));
}

const GLYPHS = {
  copy: "M4 4V1.5h7V9H8.5M1 4h7v7.5H1z",
  close: "m2 2 8 8m0-8-8 8",
  search: "M5 1.2a3.8 3.8 0 1 1 0 7.6 3.8 3.8 0 0 1 0-7.6m2.8 6.6L11 11",
  sun: "M6 3.6a2.4 2.4 0 1 1 0 4.8 2.4 2.4 0 0 1 0-4.8M6 .6v1m0 8.8v1M.6 6h1m8.8 0h1M2.2 2.2l.7.7m6.2 6.2.7.7m0-7.6-.7.7M2.9 9.1l-.7.7",
  moon: "M10.2 7.4A4.8 4.8 0 0 1 4.6 1.8a4.8 4.8 0 1 0 5.6 5.6z",
  auto: "M6 1.2a4.8 4.8 0 1 1 0 9.6 4.8 4.8 0 0 1 0-9.6m0 0v9.6M6 3.6h3.9M6 6h4.8M6 8.4h3.9",
  previous: "M7.8 1.8 3.6 6l4.2 4.2",
  next: "M4.2 1.8 8.4 6l-4.2 4.2",
  warning: "M6 1.4 11 10.4H1zM6 4.8v2.4m0 1.4v.4",
};

/** Return a small picture for a button whose name says what it does. */
export const glyph = (name) => svg("svg", { class: "glyph", viewBox: "0 0 12 12", "aria-hidden": "true" }, svg("path", { d: GLYPHS[name] }));
