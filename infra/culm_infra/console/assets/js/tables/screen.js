/** One table of a protocol: search, pages, sorting if all rows are here. Its columns come from the server. */

import * as api from "../api.js";
import { byId, h, setChildren, setText } from "../dom.js";
import { clock, count, plural } from "../format.js";
import { glyph, severityMark } from "../icons.js";
import { cell, navigable, table } from "../listing.js";
import { banner, empty } from "../shell.js";
import { cellClass, inRow, sortKey } from "./values.js";

const LIMITS = [25, 50, 100, 200];
const PAUSE_MS = 250;
const AGAIN_MS = 10_000;
const SOON_MS = 5_000;

/** Return the screen of a table. `navigate(route)` changes the address; `onUnauthorized()` asks for the token. */
export function tableScreen(spec, { search, navigate, onUnauthorized }) {
  let limit = 50;
  let before = []; // cursors of the pages before this one
  let cursor = null;
  let answer = null;
  let sorted = null; // {column, descending}
  let request = null;
  let timer = 0;

  const href = (key) => {
    const query = field.value ? `?search=${encodeURIComponent(field.value)}` : "";
    return `#/table/${encodeURIComponent(spec.name)}${key === null ? "" : `/${encodeURIComponent(key)}`}${query}`;
  };
  const field = h("input", {
    type: "search",
    placeholder: spec.search ? spec.search[0].toUpperCase() + spec.search.slice(1) : "Search",
    "aria-label": `Search: ${spec.search || spec.title}`,
    "aria-keyshortcuts": "/",
    spellcheck: "false",
    autocomplete: "off",
  });
  field.value = search;
  const size = h("select", { "aria-label": "Rows per page" }, LIMITS.map((number) => h("option", { value: number, selected: number === limit }, `${number} rows`)));
  const again = h("button", { type: "button", onclick: () => load(), "aria-keyshortcuts": "r", title: "Read the rows again (r)" }, "Refresh");
  const status = h("p", { class: "status", role: "status" });
  const problem = h("div", { class: "banners" });
  const note = h("p", { class: "note", hidden: true });
  const columns = spec.columns.map((column) => ({ ...column, kind: cellClass(column.kind), what: column.kind }));
  const { element: rows, body, heads } = table(spec.title, columns);
  const previous = h("button", { type: "button", onclick: () => page(-1), "aria-keyshortcuts": "[" }, glyph("previous"), "Previous");
  const next = h("button", { type: "button", onclick: () => page(1), "aria-keyshortcuts": "]" }, "Next", glyph("next"));
  const place = h("span", { class: "place" });
  const nothing = h("div", { hidden: true });
  const element = h(
    "div",
    { class: "screen" },
    h("div", { class: "title" }, h("h1", null, spec.title), h("p", null, spec.what)),
    h("div", { class: "toolbar" }, h("div", { class: "search" }, field, h("kbd", { "aria-hidden": "true" }, "/")), size, again, status),
    problem,
    note,
    h("div", { class: "rows" }, rows),
    nothing,
    h("nav", { class: "pages", "aria-label": "Pages" }, previous, place, next),
  );

  navigable(body, (key) => navigate(href(key)));
  heads.forEach((head, at) => sortable(head, at));
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      history.replaceState(null, "", href(null));
      restart();
    }, PAUSE_MS);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowDown" && event.key !== "Enter") return;
    body.querySelector("[tabindex='0']")?.focus();
    event.preventDefault();
  });
  size.addEventListener("change", () => {
    limit = Number(size.value);
    restart();
  });

  function restart() {
    before = [];
    cursor = null;
    return load();
  }

  async function load() {
    request?.abort();
    clearTimeout(timer);
    const current = (request = new AbortController());
    element.setAttribute("aria-busy", "true");
    try {
      const read = await api.page(spec.name, { search: field.value.trim(), cursor, limit }, current.signal);
      if (current !== request) return;
      answer = read;
      problem.replaceChildren();
      show();
    } catch (error) {
      if (error.name === "AbortError" || current !== request) return;
      if (error.status === 401) onUnauthorized();
      else {
        setChildren(problem, banner(error, load));
        // The rows stay as they were; a server or a broker that is away comes back.
        if (error.status === 0 || error.status >= 500) timer = setTimeout(load, AGAIN_MS);
      }
    } finally {
      if (current === request) element.removeAttribute("aria-busy");
    }
  }

  function show() {
    const all = isAllHere();
    if (!all) sorted = null;
    const ordered = sorted === null ? answer.rows : inOrder(answer.rows, sorted);
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.key : null;
    setChildren(body, ordered.map(row));
    if (focused !== null) ([...body.children].find((each) => each.dataset.key === focused) ?? body.firstElementChild)?.focus({ preventScroll: true });
    heads.forEach((head, at) => markSort(head, at, all));
    const isEmpty = answer.rows.length === 0;
    rows.parentElement.hidden = isEmpty;
    nothing.hidden = !isEmpty;
    if (isEmpty) setChildren(nothing, nothingHere());
    // Read again while the console still reads the topic, but not while the user moves through the rows.
    if ((isEmpty && !field.value) || (!answer.complete && !body.contains(document.activeElement))) timer = setTimeout(load, SOON_MS);
    note.hidden = !answer.note && answer.complete;
    setText(note, answer.note || (answer.complete ? "" : "These are not all rows: the console has not read all of the topic yet."));
    const first = before.length * limit + 1;
    const last = first + answer.rows.length - 1;
    const many = answer.total === null ? "" : ` of ${count(answer.total)}`;
    setText(place, isEmpty ? "" : `${count(first)}–${count(last)}${many}`);
    const words = answer.total === null ? plural(answer.rows.length, "row") : plural(answer.total, "row");
    setText(status, `${words}${field.value.trim() ? " found" : ""}, as of ${clock(answer.as_of_ms)}`);
    previous.disabled = before.length === 0;
    next.disabled = !answer.next;
    previous.parentElement.hidden = previous.disabled && next.disabled;
    markOpen();
  }

  function row(item, at) {
    const cells = columns.map((column, place) => cell(column, place === 0 ? severityMark(item.severity) : null, inRow(column.what, item.cells[column.name])));
    return h("tr", { role: "row", tabindex: at === 0 ? "0" : "-1", "data-key": item.key, "data-severity": item.severity }, cells);
  }

  const isAllHere = () => answer.complete && before.length === 0 && !answer.next;

  function inOrder(items, { column, descending }) {
    const { name, what } = columns[column];
    const direction = descending ? -1 : 1;
    return [...items].sort((a, b) => {
      const [x, y] = [sortKey(what, a.cells[name]), sortKey(what, b.cells[name])];
      if (x === null || y === null) return (x === null) - (y === null);
      if (typeof x === "number" && typeof y === "number") return direction * (x - y);
      return direction * String(x).localeCompare(String(y), "en", { numeric: true });
    });
  }

  function sortable(head, at) {
    const button = h("button", { type: "button", class: "sort", disabled: true }, columns[at].title, h("span", { "aria-hidden": "true" }));
    button.addEventListener("click", () => {
      sorted = sorted?.column === at ? (sorted.descending ? { column: at, descending: false } : null) : { column: at, descending: true };
      show();
    });
    setChildren(head, button);
  }

  function markSort(head, at, all) {
    const button = head.firstChild;
    button.disabled = !all;
    button.title = all ? "" : "Rows can be sorted only if all of them are on this page. Narrow the search.";
    const direction = sorted?.column === at ? (sorted.descending ? "descending" : "ascending") : null;
    if (direction === null) head.removeAttribute("aria-sort");
    else head.setAttribute("aria-sort", direction);
    setText(button.lastChild, direction === null ? "" : direction === "descending" ? " ↓" : " ↑");
  }

  function nothingHere() {
    const wanted = field.value.trim();
    if (wanted) {
      return empty(
        `Nothing matches “${wanted.slice(0, 80)}”`,
        h("p", null, spec.search ? `The search takes: ${spec.search}.` : "Search for another key or id."),
        h("button", { type: "button", onclick: clear }, "Clear the search"),
      );
    }
    return empty(
      spec.name === "rejected" ? "Nothing was rejected" : "There are no rows yet",
      h("p", null, spec.name === "rejected" ? "Refused data appears here with its code, its origin and its proof." : "Rows appear once peers have sent data and the jobs have worked on it."),
      h("p", null, "The ", h("a", { href: "#/" }, "overview"), " shows whether edges and jobs are ready."),
    );
  }

  function page(step) {
    if (answer === null) return;
    if (step > 0 && answer.next) {
      before.push(cursor);
      cursor = answer.next;
    } else if (step < 0 && before.length > 0) cursor = before.pop();
    else return;
    load().then(() => byId("main").scrollTo({ top: 0 }));
  }

  function clear() {
    if (field.value === "") return false;
    field.value = "";
    history.replaceState(null, "", href(null));
    restart();
    return true;
  }

  let opened = null;
  function markOpen() {
    for (const each of body.children) {
      if (each.dataset.key === opened) each.setAttribute("aria-current", "true");
      else each.removeAttribute("aria-current");
    }
  }

  restart();
  return {
    element,
    clear,
    page,
    refresh: () => load(),
    /** The address without a row. */
    route: () => href(null),
    /** Mark the row whose panel is open; null marks none. */
    mark: (key) => {
      opened = key;
      markOpen();
    },
    update: () => {},
    close: () => {
      request?.abort();
      clearTimeout(timer);
    },
  };
}
