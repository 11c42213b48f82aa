/** Keyboard shortcuts, and the dialog that lists them. */

import { byId, h, isTyping, setChildren } from "./dom.js";
import { copy } from "./ids.js";

const LISTED = [
  ["/", "Search or filter"],
  ["↑ ↓", "Move through the rows of a table; also k and j"],
  ["Home End", "First and last row"],
  ["Enter", "Open the row"],
  ["[ ]", "Previous and next page of a table"],
  ["r", "Read the table again"],
  ["c", "Copy the id of the row"],
  ["Esc", "Close the panel, clear the search"],
  ["g o", "Overview"],
  ["g r", "Rejected"],
  ["1 … 9", "Screens in their order"],
  ["t", "Theme: that of the system, light, dark"],
  ["?", "These shortcuts"],
];

/** Open the list of shortcuts. */
export function showShortcuts() {
  const dialog = byId("shortcuts");
  if (dialog.open) return;
  const keys = (text) => text.split(" ").map((key) => (key === "…" ? " … " : h("kbd", null, key)));
  setChildren(
    dialog,
    h("h2", { id: "shortcuts-title" }, "Keyboard shortcuts"),
    h("dl", null, LISTED.map(([text, meaning]) => h("div", null, h("dt", null, keys(text)), h("dd", null, meaning)))),
    h("form", { method: "dialog" }, h("button", { class: "primary", autofocus: true }, "Close")),
  );
  dialog.showModal();
}

/** Listen to the keyboard; `actions` has `escape`, `go(name)`, `screen(number)`, `page(step)`, `refresh`, `theme`. */
export function listen(actions) {
  let afterG = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || byId("shortcuts").open) return;
    if (event.key === "Escape") {
      actions.escape();
      return;
    }
    if (isTyping()) return;
    const isSecond = Date.now() - afterG < 1_500;
    afterG = event.key === "g" ? Date.now() : 0;
    if (isSecond && event.key === "o") actions.go("overview");
    else if (isSecond && event.key === "r") actions.go("rejected");
    else if (event.key === "?") showShortcuts();
    else if (event.key === "/") focusSearch();
    else if (event.key === "t") actions.theme();
    else if (event.key === "[") actions.page(-1);
    else if (event.key === "]") actions.page(1);
    else if (event.key === "r") actions.refresh();
    else if (event.key === "c") copyFocused();
    else if (/^[1-9]$/.test(event.key)) actions.screen(Number(event.key));
    else return;
    event.preventDefault();
  });
}

function focusSearch() {
  const field = document.querySelector("main input[type=search]");
  field?.focus();
  field?.select();
}

function copyFocused() {
  const at = document.activeElement;
  const value = at?.closest("[data-copy]")?.dataset.copy ?? at?.querySelector("[data-copy]")?.dataset.copy;
  if (value !== undefined) copy(value);
}
