/** Tables whose rows are updated in place, and the keys that move through them. */

import { h, setAttribute } from "./dom.js";

/**
 * Rows of a table by key. An update changes what differs: rows are kept, moved, made and removed; the one that
 * holds the focus keeps it.
 */
export class KeyedRows {
  /** `key(item)`; `create(item)` returns `{element, update(item, ...rest)}`. */
  constructor(body, { key, create }) {
    this._body = body;
    this._key = key;
    this._create = create;
    this._rows = new Map();
  }

  update(items, ...rest) {
    const kept = new Set();
    const focused = this._body.contains(document.activeElement) ? document.activeElement : null;
    let place = this._body.firstElementChild;
    for (const item of items) {
      const key = this._key(item);
      if (kept.has(key)) continue;
      kept.add(key);
      let row = this._rows.get(key);
      if (row === undefined) {
        row = this._create(item);
        row.element.dataset.key = key;
        this._rows.set(key, row);
      }
      row.update(item, ...rest);
      if (row.element === place) place = place.nextElementSibling;
      else this._body.insertBefore(row.element, place);
    }
    for (const [key, row] of this._rows) {
      if (kept.has(key)) continue;
      this._rows.delete(key);
      row.element.remove();
    }
    if (focused !== null && focused.isConnected && document.activeElement !== focused) {
      focused.focus({ preventScroll: true });
    }
    keepOneTabStop(this._body);
  }
}

/** One row of a table is in the tab order; the arrow keys reach the others. */
function keepOneTabStop(body) {
  const rows = [...body.children];
  const stop = rows.find((row) => row === document.activeElement) ?? rows.find((row) => row.tabIndex === 0) ?? rows[0];
  // A row has -1 as its `tabIndex` even without the attribute, and takes no focus then.
  for (const row of rows) setAttribute(row, "tabindex", row === stop ? 0 : -1);
}

/** Let arrow keys, Home and End move the focus through the rows of a table; Enter and a click open one, if `open` is a function. */
export function navigable(body, open) {
  const focus = (row) => {
    if (!row) return;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  };
  body.addEventListener("focusin", () => keepOneTabStop(body));
  body.addEventListener("keydown", (event) => {
    const row = event.target;
    if (row.parentElement !== body || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowDown" || event.key === "j") focus(row.nextElementSibling);
    else if (event.key === "ArrowUp" || event.key === "k") focus(row.previousElementSibling);
    else if (event.key === "Home") focus(body.firstElementChild);
    else if (event.key === "End") focus(body.lastElementChild);
    else if (open && (event.key === "Enter" || event.key === " ")) open(row.dataset.key);
    else return;
    event.preventDefault();
  });
  if (!open) return;
  body.addEventListener("click", (event) => {
    if (event.target.closest("button, a") || String(getSelection())) return;
    const row = event.target.closest("[data-key]");
    if (row) open(row.dataset.key);
  });
}

/**
 * Return a table and its body. On narrow screens rows become cards; the explicit roles keep them a table there.
 * A column is `{title, kind}`; `kind` is also the class of its cells.
 */
export function table(caption, columns, { interactive = true } = {}) {
  const body = h("tbody", { role: "rowgroup", class: interactive ? "open" : null });
  const heads = columns.map((column) => h("th", { role: "columnheader", scope: "col", class: column.kind ?? null }, column.title));
  const element = h(
    "table",
    { role: "table", "aria-label": caption },
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, heads)),
    body,
  );
  return { element, body, heads };
}

/** Return a cell; `title` is its label on cards. */
export const cell = (column, ...children) =>
  h("td", { role: "cell", class: column.kind ?? null, "data-title": column.title || null }, ...children);
