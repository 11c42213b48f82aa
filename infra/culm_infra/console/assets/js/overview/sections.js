/** A section of the overview: a heading with counts, a filter by state, a table that shows the first rows. */

import { h, setChildren, setText } from "../dom.js";
import { count } from "../format.js";
import { shape, stateTone, stateWord } from "../icons.js";
import { KeyedRows, navigable, table } from "../listing.js";

const SHOWN = 50;

/**
 * Return `{element, update(items, context)}`. `columns` and `row(item)` make the table; `words(item)` are what the
 * filter looks at; `state(item)` groups the items for the buttons that filter by state.
 */
export function section({ title, columns, key, row, words, state, open, none }) {
  const { element: rows, body } = table(title, columns, { interactive: open !== null });
  const total = h("span", { class: "total" });
  const states = h("div", { class: "states", role: "group", "aria-label": `Show ${title.toLowerCase()} by state` });
  const more = h("button", { type: "button", class: "more", hidden: true });
  const nothing = h("p", { class: "nothing", hidden: true });
  const id = `section-${title.toLowerCase()}`;
  const element = h(
    "section",
    { "aria-labelledby": id },
    h("div", { class: "heading" }, h("h2", { id }, title), total, states),
    h("div", { class: "rows" }, rows),
    nothing,
    more,
  );
  const keyed = new KeyedRows(body, { key, create: row });
  navigable(body, open);
  let limit = SHOWN;
  let only = null;
  let last = null;
  const again = () => last && update(...last);
  more.addEventListener("click", () => {
    limit += SHOWN;
    again();
  });

  function update(items, context) {
    last = [items, context];
    const counts = new Map();
    for (const item of items) counts.set(state(item), (counts.get(state(item)) ?? 0) + 1);
    if (only !== null && !counts.has(only)) only = null;
    showStates(states, counts, only, (chosen) => {
      only = only === chosen ? null : chosen;
      limit = SHOWN;
      again();
    });
    let wanted = items;
    if (only !== null) wanted = wanted.filter((item) => state(item) === only);
    if (context.wanted) wanted = wanted.filter((item) => words(item).toLowerCase().includes(context.wanted));
    keyed.update(wanted.length > limit ? wanted.slice(0, limit) : wanted, context);
    setText(total, wanted.length === items.length ? count(items.length) : `${count(wanted.length)} of ${count(items.length)}`);
    const hidden = wanted.length - limit;
    more.hidden = hidden <= 0;
    if (hidden > 0) setText(more, `Show ${count(Math.min(SHOWN, hidden))} more of ${count(hidden)}`);
    rows.hidden = wanted.length === 0;
    nothing.hidden = wanted.length > 0;
    if (wanted.length === 0) setText(nothing, items.length === 0 ? none : "Nothing matches the filter.");
  }
  return { element, update };
}

function showStates(place, counts, only, choose) {
  const key = `${[...counts].map((entry) => entry.join(" ")).join()} ${only}`;
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.state : null;
  const buttons = [...counts].map(([state, number]) =>
    h(
      "button",
      { type: "button", "data-state": state, "data-tone": stateTone(state), "aria-pressed": String(state === only), onclick: () => choose(state) },
      shape(state),
      `${count(number)} ${stateWord(state).toLowerCase()}`,
    ),
  );
  setChildren(place, counts.size > 1 || only !== null ? buttons : null);
  if (focused !== null) buttons.find((button) => button.dataset.state === focused)?.focus();
}
