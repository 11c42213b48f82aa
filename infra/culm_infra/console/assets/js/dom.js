/**
 * Elements made by script. Every string becomes a text node or an attribute's value, never HTML.
 */

const SVG = "http://www.w3.org/2000/svg";

/** Return an element; `props` has attributes, `class`, and listeners as `onclick`. Null attributes are left out. */
export function h(tag, props, ...children) {
  return filled(document.createElement(tag), props, children);
}

/** Return an SVG element. */
export function svg(tag, props, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else setAttribute(element, name, value);
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : String(child));
  }
}

/** Set, change or remove (null, false) an attribute; nothing is written if it has this value. */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) {
    if (element.hasAttribute(name)) element.removeAttribute(name);
    return;
  }
  const text = value === true ? "" : String(value);
  if (element.getAttribute(name) !== text) element.setAttribute(name, text);
}

/** Set the text of an element that holds text alone; nothing is written if it has this text. */
export function setText(element, text) {
  const node = element.firstChild;
  if (node === null) {
    if (text !== "") element.append(text);
  } else if (node.data !== text || node.nextSibling !== null) {
    if (node.nodeType === Node.TEXT_NODE && node.nextSibling === null) node.data = text;
    else element.replaceChildren(text);
  }
}

/** Replace all children. */
export function setChildren(element, ...children) {
  const parts = document.createDocumentFragment();
  append(parts, children);
  element.replaceChildren(parts);
}

export const byId = (id) => document.getElementById(id);

/** Whether the keyboard's letters belong to a field now. */
export const isTyping = () => /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName ?? "");
