/** Ids: monospaced, shortened in the middle; whole on hover and focus; copied by a button or the key `c`. */

import { byId, h } from "./dom.js";
import { middle } from "./format.js";
import { glyph } from "./icons.js";

let toastTimer = 0;

/** Show a short message, which screen readers read. */
function toast(text) {
  const place = byId("toast");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => {
    place.classList.remove("shown");
    place.textContent = "";
  }, 2_500);
}

/** Copy text, also where the page has no right to the clipboard's interface (plain HTTP to another machine). */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = h("textarea", { class: "unseen", "aria-hidden": "true" });
    field.value = text;
    const focused = document.activeElement;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    focused?.focus({ preventScroll: true });
    if (!copied) {
      toast("The browser did not allow copying.");
      return;
    }
  }
  toast(`Copied: ${middle(text, 28)}`);
}

export const copyButton = (text, what = "id") =>
  h(
    "button",
    {
      type: "button",
      class: "copy",
      "aria-label": `Copy the ${what} ${middle(text, 28)}`,
      onclick: (event) => {
        event.stopPropagation();
        copy(text);
      },
    },
    glyph("copy"),
  );

/** Return an id. With `whole` it is shown in full and wraps; `label` replaces the text that is shown. */
export function id(text, { whole = false, longest = 19 } = {}) {
  const value = String(text);
  const shown = whole ? value : middle(value, longest);
  const parts = [h("code", { "data-full": shown === value ? null : value }, shown)];
  if (shown !== value) parts.push(h("span", { class: "unseen" }, `, in full ${value}`));
  return h("span", { class: whole ? "id whole" : "id", "data-copy": value }, parts, copyButton(value));
}

/** Show the whole text of what is hovered or holds the focus, if it is shortened. */
export function followTips() {
  const tip = byId("tip");
  const hide = () => {
    tip.hidden = true;
  };
  const show = (event) => {
    const at = event.target.closest?.("[data-full]") ?? event.target.querySelector?.(":scope [data-full]");
    if (!at || (event.type === "focusin" && !event.target.matches(":focus-visible"))) {
      hide();
      return;
    }
    tip.textContent = at.dataset.full;
    tip.hidden = false;
    const box = at.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(box.left, innerWidth - own.width - 8));
    const above = box.top - own.height - 6;
    tip.style.left = `${left}px`;
    tip.style.top = `${above > 8 ? above : box.bottom + 6}px`;
  };
  document.addEventListener("mouseover", (event) => (event.target.closest?.("[data-full]") ? show(event) : hide()));
  document.addEventListener("focusin", show);
  document.addEventListener("focusout", hide);
  addEventListener("scroll", hide, { passive: true, capture: true });
  return hide;
}
