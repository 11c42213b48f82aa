/** The frame around the screens: navigation, connection, theme, announcements, and pages that replace a screen. */

import { byId, h, setChildren, setText } from "./dom.js";
import { clock, duration } from "./format.js";
import { glyph, shape } from "./icons.js";

const THEMES = ["auto", "light", "dark"];
const THEME_PICTURES = { auto: "auto", light: "sun", dark: "moon" };
const THEME_NAMES = { auto: "that of the system", light: "light", dark: "dark" };

let connection = null;

/** Show whether the overview is live, and since when it is not. */
export function showConnection(state) {
  const place = byId("live");
  const changed = connection?.live !== state.live;
  connection = state;
  document.documentElement.classList.toggle("stale", !state.live);
  byId("retry").hidden = state.live;
  if (changed) {
    place.dataset.tone = state.live ? "good" : "bad";
    setChildren(place, shape(state.live ? "ready" : "down"), h("span", { class: "words" }), h("span", { class: "age", "aria-hidden": "true" }));
  }
  setText(place.querySelector(".words"), state.live ? "Live" : `Not live since ${clock(state.since_ms)}`);
  tick();
}

/** Update the age of a connection that is lost. */
export function tick() {
  if (connection === null) return;
  const age = byId("live").querySelector(".age");
  setText(age, connection.live ? clock(connection.since_ms) : `${duration(Date.now() - connection.since_ms)}, connecting again`);
}

/** Show which deployment this is. */
export function showDeployment(document_) {
  const place = byId("deployment");
  const key = `${document_.prefix} ${document_.bootstrap}`;
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  setChildren(
    place,
    document_.prefix ? [h("span", { class: "label" }, "prefix "), h("code", null, document_.prefix)] : null,
    h("span", { class: "label" }, "Kafka "),
    h("code", null, document_.bootstrap),
  );
}

/** Put the number of failing parts into the page's title and icon. */
export function showFailing(number) {
  const title = number > 0 ? `(${number}) Culm console` : "Culm console";
  if (document.title === title) return;
  document.title = title;
  byId("icon").href = number > 0 ? "/assets/icon-failing.svg" : "/assets/icon.svg";
}

/** Have screen readers read a sentence. */
export const announce = (text) => setText(byId("announce"), text);

/** Fill the navigation: the overview, then tables by protocol. `entries` has {name, title, protocol}. */
export function showNavigation(entries) {
  const link = (href, title, name) => h("li", null, h("a", { href, "data-name": name }, title));
  const groups = new Map();
  for (const entry of entries) {
    if (entry.name === "rejected") continue;
    if (!groups.has(entry.protocol)) groups.set(entry.protocol, []);
    groups.get(entry.protocol).push(entry);
  }
  const others = entries.filter((entry) => entry.name === "rejected");
  const tableLink = (entry) => link(`#/table/${encodeURIComponent(entry.name)}`, entry.title, entry.name);
  let number = 0;
  const grouped = [...groups].map(([protocol, members]) => {
    const id = `nav-${(number += 1)}`;
    return [h("h2", { id }, protocolTitle(protocol)), h("ul", { "aria-labelledby": id }, members.map(tableLink))];
  });
  setChildren(byId("nav"), h("ul", null, link("#/", "Overview", "overview"), others.map(tableLink)), grouped);
}

const PROTOCOL_TITLES = { p2panda: "p2panda", sds: "SDS", chotki: "Chotki", bamboo: "Bamboo", dag: "DAG" };

export const protocolTitle = (protocol) => PROTOCOL_TITLES[protocol] ?? String(protocol ?? "");

/** Mark the screen that is shown. */
export function markNavigation(name) {
  for (const link of byId("nav").querySelectorAll("a")) {
    if (link.dataset.name === name) {
      link.setAttribute("aria-current", "page");
      if (byId("nav").scrollWidth > byId("nav").clientWidth) link.scrollIntoView({ block: "nearest", inline: "center" });
    } else link.removeAttribute("aria-current");
  }
}

function chosenTheme() {
  return document.documentElement.dataset.theme ?? "auto";
}

function labelTheme() {
  const chosen = chosenTheme();
  const button = byId("theme");
  button.setAttribute("aria-label", `Theme: ${THEME_NAMES[chosen]}`);
  button.title = `Theme: ${THEME_NAMES[chosen]} (t)`;
  button.replaceChildren(glyph(THEME_PICTURES[chosen]));
}

/** Go to the next theme and remember it. */
export function nextTheme() {
  const next = THEMES[(THEMES.indexOf(chosenTheme()) + 1) % THEMES.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    if (next === "auto") localStorage.removeItem("culm-theme");
    else localStorage.setItem("culm-theme", next);
  } catch {
    /* Storage is switched off: the theme holds until the page is closed. */
  }
  labelTheme();
  announce(`Theme: ${THEME_NAMES[next]}`);
}

export function startTheme() {
  labelTheme();
  byId("theme").addEventListener("click", nextTheme);
}

/** Return a banner for what went wrong: its text, what to do, and a button that tries again. */
export function banner(error, again) {
  return h(
    "div",
    { class: "banner", role: "alert", "data-tone": "bad" },
    glyph("warning"),
    h("div", null, h("strong", null, error.message), error.hint ? h("p", null, error.hint) : null),
    again ? h("button", { type: "button", onclick: again }, "Try again") : null,
  );
}

/** Return a panel for a place without content: what it would show, and what to do. */
export function empty(title, ...children) {
  return h("div", { class: "empty" }, h("h3", null, title), ...children);
}

/** Replace everything by a field for the token. A token that was refused is still in the address. */
export function showTokenPage() {
  const tried = new URLSearchParams(location.search).has("token");
  if (tried) history.replaceState(null, "", `/${location.hash}`);
  const submit = (event) => {
    event.preventDefault();
    // The server answers with a cookie and leads to the address without the token.
    location.assign(`/?token=${encodeURIComponent(byId("token").value.trim())}${location.hash}`);
  };
  document.documentElement.classList.add("locked");
  setChildren(byId("nav"));
  setChildren(
    byId("main"),
    h(
      "form",
      { class: "token", onsubmit: submit },
      h("h1", null, "This console needs its token"),
      h("p", null, "“culm console” prints an address with the token when it starts. If the setting ", h("code", null, "console.token"), " is set, that is the token."),
      tried ? h("p", { class: "wrong", role: "alert", id: "token-wrong" }, shape("down"), "That is not the token of this console.") : null,
      h("label", { for: "token" }, "Token"),
      h("input", {
        id: "token",
        type: "password",
        autocomplete: "current-password",
        required: true,
        spellcheck: "false",
        "aria-describedby": tried ? "token-wrong" : null,
      }),
      h("button", { class: "primary" }, "Open the console"),
    ),
  );
  byId("token").focus();
}
