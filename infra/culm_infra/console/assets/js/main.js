/** The console's page: routes in the address's fragment, the live overview, and what the keyboard does. */

import * as api from "./api.js";
import { byId, h, setChildren } from "./dom.js";
import { followTips } from "./ids.js";
import { listen, showShortcuts } from "./keys.js";
import { Live } from "./live.js";
import { edgeDetail } from "./overview/edges.js";
import { jobDetail } from "./overview/jobs.js";
import { failing, OverviewModel, overviewScreen } from "./overview/screen.js";
import * as shell from "./shell.js";
import { Panel } from "./tables/panel.js";
import { tableScreen } from "./tables/screen.js";

const model = new OverviewModel();
const panel = new Panel(() => leavePanel());
const hideTip = followTips();
let specs = null;
let screen = null;
let shown = "";
let isLocked = false;

/** Parse the address: `#/`, `#/edge/ID`, `#/job/ID`, `#/table/NAME`, `#/table/NAME/KEY`, with `?search=`. */
function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parts = path.split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { kind: parts[0] || "overview", name: parts[1] ?? null, key: parts[2] ?? null, search: new URLSearchParams(query).get("search") ?? "" };
}

const navigate = (to) => {
  location.hash = to;
};

function leavePanel() {
  navigate(screen?.route?.() ?? "#/");
}

function display(name, make, title) {
  if (shown === name) return;
  screen?.close?.();
  shown = name;
  screen = make();
  setChildren(byId("main"), screen.element);
  byId("main").scrollTop = 0;
  shell.markNavigation(title);
}

function render() {
  if (isLocked) return;
  hideTip();
  const at = route();
  if (at.kind === "table") {
    renderTable(at);
    return;
  }
  display("overview", () => overviewScreen(model, navigate), "overview");
  if (at.kind === "edge" || at.kind === "job") renderMember(at);
  else panel.close();
}

function renderMember({ kind, name }) {
  if (model.document === null) return;
  const members = kind === "edge" ? model.document.edges : model.document.jobs;
  const member = members.find((each) => each.id === name);
  if (member !== undefined) {
    panel.show(`${kind} ${name}`, (kind === "edge" ? edgeDetail : jobDetail)(member, model.document.time_ms));
    return;
  }
  panel.show(`${kind} ${name}`, { kind: kind === "edge" ? "Edge" : "Jobs", title: name ?? "", fields: [], sections: [], reasons: ["The console no longer watches it."], state: "unknown" });
}

function renderTable({ name, key, search }) {
  if (specs === null) {
    display("loading", loadingScreen, name);
    return;
  }
  const spec = specs.find((each) => each.name === name);
  if (spec === undefined) {
    panel.close();
    display(`missing ${name}`, () => missingScreen(name), name);
    return;
  }
  display(`table ${name}`, () => tableScreen(spec, { search, navigate, onUnauthorized: lock }), name);
  screen.mark(key);
  if (key === null) panel.close();
  else panel.load(`table ${name} ${key}`, name, spec.title, key, lock);
}

const plainScreen = (...children) => ({ element: h("div", { class: "screen" }, ...children), update: () => {}, clear: () => false, page: () => {} });

const loadingScreen = () => plainScreen(h("p", { class: "note", role: "status" }, "Reading the list of tables …"));

const missingScreen = (name) => plainScreen(shell.empty(`There is no table “${String(name).slice(0, 80)}”`, h("p", null, "The screens are in the navigation.")));

async function loadTables() {
  if (isLocked) return;
  try {
    specs = await api.tables();
    shell.showNavigation(specs);
    shown = shown === "loading" ? "" : shown;
    render();
    shell.markNavigation(route().kind === "table" ? route().name : "overview");
  } catch (error) {
    if (error.status === 401) lock();
    else setTimeout(loadTables, 3_000);
  }
}

function lock() {
  if (isLocked) return;
  isLocked = true;
  live.stop();
  screen?.close?.();
  panel.close();
  shell.showTokenPage();
}

function onDocument(document_) {
  model.take(document_);
  shell.showDeployment(document_);
  shell.showFailing(failing(document_));
  if (document.hidden || isLocked) return;
  screen?.update();
  const at = route();
  if (at.kind === "edge" || at.kind === "job") renderMember(at);
}

const live = new Live({ onDocument, onState: shell.showConnection, onUnauthorized: lock });

function escape() {
  if (panel.isOpen) leavePanel();
  else if (screen?.clear()) return;
  else if (document.activeElement?.type === "search") document.activeElement.blur();
}

function start() {
  shell.startTheme();
  shell.showNavigation([]);
  byId("help").addEventListener("click", showShortcuts);
  byId("retry").addEventListener("click", () => live.start());
  listen({
    escape,
    theme: shell.nextTheme,
    page: (step) => screen?.page(step),
    refresh: () => screen?.refresh?.(),
    go: (name) => navigate(name === "overview" ? "#/" : `#/table/${name}`),
    screen: (number) => [...byId("nav").querySelectorAll("a")][number - 1]?.click(),
  });
  addEventListener("hashchange", render);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) screen?.update();
  });
  setInterval(shell.tick, 1_000);
  render();
  loadTables();
  live.start();
}

start();
