"""Contrast, names and sizes of what a page shows, from the page and Chromium's accessibility tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from playwright.sync_api import Page

_NAMED_ROLES: Final = frozenset(
    {"button", "link", "searchbox", "textbox", "combobox", "table", "navigation", "dialog", "complementary"}
)

# Colours are resolved by a canvas, which knows every notation; backgrounds are laid over each other.
_CONTRAST: Final = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const luminance = (color) => {
    const [r, g, b] = color.map((part) => {
      const value = part / 255;
      return value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const color = rgba(getComputedStyle(at).backgroundColor);
      layers.push(color);
      if (color[3] === 1) break;
    }
    return layers.reverse().reduce((below, top) => over(top, below), [255, 255, 255, 1]);
  };
  const faults = [];
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    const text = node.data.trim();
    if (!text || !element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    if (element.closest(".unseen, noscript, .skip, script, option, :disabled")) continue;
    const style = getComputedStyle(element);
    const below = ground(element);
    const above = over(rgba(style.color), below);
    const [light, dark] = [luminance(above), luminance(below)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    texts += 1;
    if (ratio >= (isLarge ? 3 : 4.5)) continue;
    faults.push(`${ratio.toFixed(2)} ${text.slice(0, 40)} (${element.className})`);
  }
  return { texts, faults };
}"""

_SMALL: Final = """() => [...document.querySelectorAll("button, a, input, select")]
  .filter((element) => element.checkVisibility() && !element.closest(".skip, .note, p, dd"))
  .map((element) => [element.getBoundingClientRect(), element.ariaLabel || element.textContent])
  .filter(([box]) => box.width < 24 || box.height < 24)
  .map(([box, name]) => `${name}: ${Math.round(box.width)} x ${Math.round(box.height)}`)"""

_WIDE: Final = """() => [...document.querySelectorAll("body, body *")]
  .filter((element) => element.checkVisibility())
  .filter((element) => !element.closest(".unseen, .skip, .side, thead, .hex, .tip"))
  .filter((element) => element.getBoundingClientRect().right > innerWidth + 1)
  .map((element) => `${element.tagName}.${element.className}`)"""


def poor_contrast(page: Page) -> list[str]:
    """Return visible texts whose contrast is below 4.5, or 3 for large ones."""
    measured: dict[str, Any] = page.evaluate(_CONTRAST)
    assert measured["texts"] > 10, "the page shows text"
    faults: list[str] = measured["faults"]
    return faults


def small_targets(page: Page) -> list[str]:
    """Return controls outside of sentences that are smaller than 24 pixels."""
    faults: list[str] = page.evaluate(_SMALL)
    return faults


def overflowing(page: Page) -> list[str]:
    """Return elements that reach over the right edge of the window."""
    faults: list[str] = page.evaluate(_WIDE)
    return faults


def accessibility_tree(page: Page) -> list[dict[str, Any]]:
    """Return the nodes that screen readers see, each with role, name and properties."""
    session = page.context.new_cdp_session(page)
    try:
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    finally:
        session.detach()
    return [
        {
            "role": node["role"]["value"],
            "name": node.get("name", {}).get("value", ""),
            **{each["name"]: each["value"].get("value") for each in node.get("properties", ())},
        }
        for node in nodes
        if not node.get("ignored")
    ]


def unnamed(page: Page) -> list[dict[str, Any]]:
    """Return controls, tables and regions without a name."""
    tree = accessibility_tree(page)
    return [node for node in tree if node["role"] in _NAMED_ROLES and not node["name"].strip()]
