/** The panel beside a screen: one edge, one process, or one row of a table whole. */

import * as api from "../api.js";
import { byId, h, setChildren } from "../dom.js";
import { count, plural, seconds } from "../format.js";
import { badge, glyph } from "../icons.js";
import { id } from "../ids.js";
import { cell, table } from "../listing.js";
import { banner } from "../shell.js";
import { cellClass, inRow, isBlock, whole } from "./values.js";

const SHOWN = 100;
const NARROW = matchMedia("(max-width: 760px)");

export class Panel {
  /** `onClose()` leaves the address of the row. */
  constructor(onClose) {
    this._element = byId("panel");
    this._onClose = onClose;
    this._request = null;
    this._opener = null;
    this._shown = "";
    this._is_new = false;
    NARROW.addEventListener("change", () => this._cover());
  }

  get isOpen() {
    return !this._element.hidden;
  }

  /** Show a description of something that the page has already. It is updated while nothing in it is selected. */
  show(key, description) {
    const text = JSON.stringify(description);
    const isSame = this.isOpen && this._element.dataset.key === key;
    if (isSame && (this._shown === text || this._has_selection())) return;
    this._shown = text;
    this._open(key);
    this._fill(description);
  }

  /** Read a row of a table and show it. */
  async load(key, name, title, rowKey, onUnauthorized) {
    if (this.isOpen && this._element.dataset.key === key) return;
    this._shown = "";
    this._open(key);
    const request = (this._request = new AbortController());
    const head = () => this._head(title, id(rowKey, { longest: 40 }));
    this._replace(
      head(),
      h("div", { class: "inside", "aria-busy": "true" }, h("p", { class: "scan", role: "status" }, h("span", { class: "busy", "aria-hidden": "true" }), "Reading the topics; the console limits how long this takes. Esc ends it.")),
    );
    // The answer is new to whoever waits for it; the focus of others stays.
    const answered = (show) => {
      this._is_new = this._element.contains(document.activeElement);
      show();
    };
    try {
      const read = await api.detail(name, rowKey, request.signal);
      if (request !== this._request) return;
      answered(() => this._fill({ ...described(read), kind: title }));
    } catch (error) {
      if (error.name === "AbortError" || request !== this._request) return;
      if (error.status === 401) {
        onUnauthorized();
        return;
      }
      const again = () => {
        this._element.dataset.key = "";
        this.load(key, name, title, rowKey, onUnauthorized);
      };
      answered(() => this._replace(head(), h("div", { class: "inside" }, banner(error, again))));
    }
  }

  close() {
    if (!this.isOpen) return;
    this._request?.abort();
    this._request = null;
    this._element.hidden = true;
    this._element.dataset.key = "";
    this._shown = "";
    this._cover();
    this._element.replaceChildren();
    if (this._opener?.isConnected) this._opener.focus({ preventScroll: true });
    this._opener = null;
  }

  _open(key) {
    this._request?.abort();
    this._request = null;
    if (!this.isOpen) this._opener = document.activeElement === document.body ? null : document.activeElement;
    else if (byId("main").contains(document.activeElement)) this._opener = document.activeElement;
    const isOther = this._element.dataset.key !== key;
    this._element.dataset.key = key;
    this._element.hidden = false;
    this._cover();
    this._is_new = isOther;
    if (isOther) this._element.scrollTop = 0;
  }

  /** On a narrow screen the panel covers everything else. */
  _cover() {
    for (const below of document.querySelectorAll(".top, .side, main")) below.inert = this.isOpen && NARROW.matches;
  }

  _has_selection() {
    const selection = getSelection();
    return !selection.isCollapsed && this._element.contains(selection.anchorNode);
  }

  /** Replace the contents. The focus goes to the title of something new, else it stays at its place. */
  _replace(...children) {
    const places = () => [...this._element.querySelectorAll("button, [tabindex]")];
    const at = places().indexOf(document.activeElement);
    const scrolled = this._element.scrollTop;
    setChildren(this._element, ...children);
    const place = this._is_new ? byId("panel-title") : places()[at];
    place?.focus({ preventScroll: true });
    this._is_new = false;
    this._element.scrollTop = scrolled;
  }

  _head(kind, title, state = null) {
    const close = h("button", { type: "button", class: "tool", "aria-label": "Close", "aria-keyshortcuts": "Escape", title: "Close (Esc)", onclick: () => this._onClose() }, glyph("close"));
    return h(
      "header",
      null,
      h("div", null, h("p", { class: "kind" }, kind), h("h2", { id: "panel-title", tabindex: "-1" }, title), state === null ? null : badge(state)),
      close,
    );
  }

  _fill(description) {
    this._replace(
      this._head(description.kind, description.titleId ? id(description.title, { whole: true }) : description.title, description.state ?? null),
      h(
        "div",
        { class: "inside" },
        description.reasons?.length ? h("ul", { class: "reasons" }, description.reasons.map((reason) => h("li", null, reason))) : null,
        description.scan ? scanLine(description.scan) : null,
        h("dl", { class: "fields" }, description.fields.map(([title, value, kind]) => h("div", null, h("dt", null, title), h("dd", null, whole(kind, value))))),
        description.sections.map(panelSection),
      ),
    );
  }
}

/** Turn an answer of the server into a description. */
function described(read) {
  return {
    title: String(read.title),
    titleId: /^\S{24,}$/.test(String(read.title)),
    fields: read.fields.map((field) => [field.title, field.value, field.kind]),
    sections: read.sections,
    scan: read.scan,
  };
}

function scanLine(scan) {
  const all = `${plural(scan.records, "record")} read in ${seconds(scan.took_s)}.`;
  const limit = `The limit is ${seconds(scan.limit_s)}.`;
  if (scan.complete) return h("p", { class: "scan" }, `${all} ${limit}`);
  return h("p", { class: "scan", "data-tone": "warn" }, glyph("warning"), `${all} Reading stopped at its limit of ${seconds(scan.limit_s)}: there may be more.`);
}

function panelSection(section) {
  const columns = section.columns.map((column) => ({ ...column, what: column.kind, kind: cellClass(column.kind) }));
  const { element, body } = table(section.title, columns, { interactive: false });
  const make = (values) =>
    h("tr", { role: "row" }, columns.map((column, at) => cell(column, isBlock(values[at]) ? whole("text", values[at]) : inRow(column.what, values[at]))));
  body.append(...section.rows.slice(0, SHOWN).map(make));
  const more = h("button", { type: "button", class: "more", hidden: section.rows.length <= SHOWN }, `Show all ${count(section.rows.length)} rows`);
  more.addEventListener("click", () => {
    body.append(...section.rows.slice(SHOWN).map(make));
    more.remove();
  });
  return h(
    "section",
    null,
    h("h3", null, section.title, section.rows.length > 0 ? h("span", { class: "total" }, count(section.rows.length)) : null),
    section.rows.length > 0 ? h("div", { class: "rows" }, element) : null,
    section.note || section.rows.length === 0 ? h("p", { class: "note" }, section.note || "None.") : null,
    more,
  );
}
