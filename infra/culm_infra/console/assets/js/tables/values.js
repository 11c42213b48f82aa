/** Cells and fields by their kind: `id`, `text`, `count`, `bytes`, `rate`, `time`, `state`, `list`. */

import { h } from "../dom.js";
import { byteRate, bytes, count, dateTime, UNKNOWN } from "../format.js";
import { badge } from "../icons.js";
import { copyButton, id } from "../ids.js";

const NUMBERS = new Set(["count", "bytes", "rate"]);
const SHORT = new Set([...NUMBERS, "state", "time"]);
const LISTED = 4;
const LONG = 200;
/** Text without a place to wrap it, such as a schema id. */
const UNBROKEN = /^\S{36,}$/;
const HEX = /^(?:[0-9a-fA-F]{2}){33,}$/;

/** Bytes in hex that deserve a block of their own: entries, proofs, records. */
export const isBlock = (value) => typeof value === "string" && /^(?:[0-9a-fA-F]{2}){80,}$/.test(value);

/** Return the class of a column's cells. */
export const cellClass = (kind) => (NUMBERS.has(kind) ? "number" : String(kind ?? "text"));

const isMissing = (value) => value === null || value === undefined || value === "";

const plain = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));

/** Return an element for a value in a row: one line, shortened. */
export function inRow(kind, value) {
  if (isMissing(value)) return h("span", { class: "unknown" }, UNKNOWN);
  if (Array.isArray(value)) return list(value, LISTED, { longest: 19 });
  if (kind === "id") return id(value);
  if (kind === "state") return badge(String(value));
  if (kind === "time") return time(value);
  if (NUMBERS.has(kind)) return h("span", { class: "value" }, number(kind, value));
  const text = plain(value);
  if (HEX.test(text)) return id(text);
  if (UNBROKEN.test(text)) return id(text, { longest: 30 });
  if (text.length > LONG) return h("span", { "data-full": text.slice(0, 2_000) }, `${text.slice(0, LONG)}…`);
  return h("span", null, text);
}

/** Return an element for a value that has a place of its own: whole, with a button that copies it. */
export function whole(kind, value) {
  if (isMissing(value)) return h("span", { class: "unknown" }, UNKNOWN);
  if (Array.isArray(value)) return list(value, Infinity, { whole: true });
  if (HEX.test(plain(value))) return hex(plain(value));
  if (kind === "id") return id(value, { whole: true });
  return SHORT.has(kind) ? inRow(kind, value) : h("span", { class: "text" }, plain(value));
}

/** Return the value by which a column is sorted. */
export function sortKey(kind, value) {
  if (Array.isArray(value)) return value.length;
  if (isMissing(value)) return null;
  return typeof value === "number" ? value : plain(value).toLowerCase();
}

function number(kind, value) {
  if (typeof value !== "number") return String(value);
  return kind === "bytes" ? bytes(value) : kind === "rate" ? byteRate(value) : count(value);
}

function time(value) {
  if (typeof value !== "number") return h("span", null, String(value));
  const shown = dateTime(value);
  return shown === UNKNOWN ? h("span", null, String(value)) : h("time", { datetime: new Date(value).toISOString() }, shown);
}

function list(values, longest, options) {
  const shown = values.slice(0, longest);
  const rest = values.length - shown.length;
  return h(
    "ul",
    { class: "values" },
    shown.map((value) => h("li", null, isIdLike(value) ? id(value, options) : plain(value))),
    rest > 0 ? h("li", { class: "rest" }, `and ${count(rest)} more`) : null,
    values.length === 0 ? h("li", { class: "unknown" }, "none") : null,
  );
}

const isIdLike = (value) => typeof value === "string" && /^\S{20,}$/.test(value);

const FIRST_DIGITS = 1_024;

/** Bytes in hex: in groups, the first of them until all are asked for; the button copies all. */
function hex(text) {
  const block = h("code", { class: "hex", tabindex: "0", "aria-label": "Bytes in hex" });
  const show = (digits) => {
    block.textContent = (digits.match(/.{1,8}/g) ?? []).join(" ");
  };
  show(text.slice(0, FIRST_DIGITS));
  const more =
    text.length > FIRST_DIGITS
      ? h(
          "button",
          {
            type: "button",
            onclick: () => {
              show(text);
              more.remove();
            },
          },
          `Show all ${count(Math.floor(text.length / 2))} bytes`,
        )
      : null;
  return h("div", { class: "hexblock", "data-copy": text }, h("p", { class: "note" }, `${count(Math.floor(text.length / 2))} bytes `, copyButton(text, "bytes")), block, more);
}
