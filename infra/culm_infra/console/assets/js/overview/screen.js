/** The overview: a sentence that says how things are, numbers, and the edges, jobs and topics, worst first. */

import { h, setChildren, setText } from "../dom.js";
import { byteRate, count, plural, shortCount, UNKNOWN } from "../format.js";
import { shape } from "../icons.js";
import { copyButton } from "../ids.js";
import { History, Sparkline } from "../series.js";
import { announce, empty } from "../shell.js";
import { edgeSection } from "./edges.js";
import { jobSection } from "./jobs.js";
import { topicSection } from "./topics.js";

/** Everything the overview remembers while other screens are shown. */
export class OverviewModel {
  constructor() {
    this.document = null;
    this.history = new History();
    this._states = new Map();
  }

  /** Take a document; it is the only one that is kept. */
  take(document_) {
    this.document = document_;
    this.history.record(measured(document_));
    this._announce_changes();
  }

  _announce_changes() {
    const states = new Map();
    const changed = [];
    for (const [kind, members] of [["edge", this.document.edges], ["job", this.document.jobs]]) {
      for (const member of members) {
        const id = `${kind} ${member.id}`;
        const before = this._states.get(id);
        states.set(id, member.state);
        if (before !== undefined && before !== member.state) changed.push(`${kind} ${member.name}: ${spoken(member)}`);
      }
    }
    this._states = states;
    if (changed.length > 3) announce(`${changed.length} edges and jobs changed their state. First: ${changed[0]}`);
    else if (changed.length > 0) announce(changed.join(". "));
  }
}

const spoken = (member) => [member.state.replaceAll("_", " "), ...(member.state === "ready" ? [] : member.reasons.slice(0, 1))].join(", ");

const total = (members, field) => members.reduce((sum, member) => (member[field] === null ? sum : (sum ?? 0) + member[field]), null);

const queriesOf = (document_) => document_.jobs.flatMap((job) => job.queries);

function* measured(document_) {
  for (const edge of document_.edges) {
    yield [`edge ${edge.id} lag`, edge.lag_records];
    yield [`edge ${edge.id} in`, edge.received_bytes_per_s];
    yield [`edge ${edge.id} out`, edge.sent_bytes_per_s];
  }
  for (const job of document_.jobs) {
    for (const query of job.queries) {
      yield [`query ${job.id} ${query.job} lag`, query.lag_records];
      yield [`query ${job.id} ${query.job} rows`, query.rows_per_second];
    }
  }
  for (const topic of document_.topics) yield [`topic ${topic.name}`, topic.records_per_s];
  for (const tile of TILES) yield [`tile ${tile.name}`, tile.value(document_)];
}

const largestLag = (document_) => {
  let largest = null;
  for (const edge of document_.edges) if (edge.lag_records !== null && !(edge.lag_records <= largest?.[0])) largest = [edge.lag_records, edge.name];
  for (const query of queriesOf(document_)) if (query.lag_records !== null && !(query.lag_records <= largest?.[0])) largest = [query.lag_records, query.job];
  return largest;
};

const TILES = [
  { name: "peers", title: "Peers connected", value: (d) => total(d.edges, "peers"), text: count, note: (d) => `at ${plural(d.edges.length, "edge")}` },
  { name: "received", title: "Received", value: (d) => total(d.edges, "received_bytes_per_s"), text: byteRate, note: () => "from peers" },
  { name: "sent", title: "Sent", value: (d) => total(d.edges, "sent_bytes_per_s"), text: byteRate, note: () => "to peers" },
  { name: "written", title: "Written to Kafka", value: (d) => total(d.topics, "records_per_s"), text: (v) => (v === null ? UNKNOWN : `${shortCount(Math.round(v))}/s`), note: () => "records, all topics" },
  { name: "lag", title: "Largest lag", value: (d) => largestLag(d)?.[0] ?? null, text: shortCount, note: (d) => (largestLag(d)?.[0] > 0 ? `records, ${largestLag(d)[1]}` : "records") },
  {
    name: "rejected",
    title: "Rejected",
    value: (d) => [total(d.edges, "rejected"), total(queriesOf(d), "rejected")].reduce((sum, part) => (part === null ? sum : (sum ?? 0) + part), null),
    text: shortCount,
    note: () => h("a", { href: "#/table/rejected" }, "newest refusals"),
  },
];

/** Return the screen: its element and `update()`. `open(route)` opens a panel. */
export function overviewScreen(model, open) {
  const headline = headlinePart();
  const tiles = TILES.map(tilePart);
  const field = h("input", { type: "search", placeholder: "Filter edges, jobs and topics", "aria-label": "Filter edges, jobs and topics", "aria-keyshortcuts": "/", spellcheck: "false", autocomplete: "off" });
  const sections = [edgeSection(open), jobSection(open), topicSection()];
  const kafka = h("div", { class: "banners" });
  const body = h("div", { class: "sections" }, sections.map((section) => section.element));
  const nothing = h("div", { hidden: true }, noTargets());
  const element = h(
    "div",
    { class: "screen overview" },
    kafka,
    headline.element,
    h("dl", { class: "tiles" }, tiles.map((tile) => tile.element)),
    h("div", { class: "toolbar" }, h("div", { class: "search" }, field, h("kbd", { "aria-hidden": "true" }, "/"))),
    nothing,
    body,
  );
  const update = () => {
    const document_ = model.document;
    if (document_ === null) return;
    const wanted = field.value.trim().toLowerCase();
    const now = document_.time_ms;
    showKafka(kafka, document_.kafka);
    headline.update(document_);
    for (const tile of tiles) tile.update(document_, model.history);
    const isEmpty = document_.edges.length === 0 && document_.jobs.length === 0;
    nothing.hidden = !isEmpty;
    sections[0].element.hidden = isEmpty;
    sections[1].element.hidden = isEmpty;
    sections[0].update(document_.edges, { wanted, now, history: model.history });
    sections[1].update(document_.jobs, { wanted, now, history: model.history });
    sections[2].update(document_.topics, { wanted, now, history: model.history });
  };
  field.addEventListener("input", update);
  const clear = () => {
    if (field.value === "") return false;
    field.value = "";
    update();
    return true;
  };
  update();
  return { element, update, clear, page: () => {} };
}

function showKafka(place, kafka) {
  const key = kafka.state === "down" ? `${kafka.detail}` : "";
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  if (key === "") {
    place.replaceChildren();
    return;
  }
  setChildren(
    place,
    h(
      "div",
      { class: "banner", role: "alert", "data-tone": "bad" },
      shape("down"),
      h("div", null, h("strong", null, "Kafka does not answer."), h("p", null, kafka.detail), h("p", null, "Edges and jobs are shown as they are; topics and tables are as of the last answer.")),
    ),
  );
}

/** Number of edges and jobs that need attention. */
export const failing = (document_) => [...document_.edges, ...document_.jobs].filter((member) => member.severity >= 2).length;

const lags = (member) => member.lag_records > 0 || (member.queries ?? []).some((query) => query.lag_records > 0);

function predicate(member) {
  const broken = (member.queries ?? []).filter((query) => ["failed", "restarting", "stalled", "stopped"].includes(query.state));
  if (member.state === "ready") return broken.length > 0 ? `has ${plural(broken.length, "query", "queries")} that failed` : lags(member) ? "is falling behind" : "needs attention";
  return { older: "is of an older version", refused: "refuses the console", unknown: "gives no usable answer" }[member.state] ?? `is ${member.state.replaceAll("_", " ")}`;
}

function sentence({ edges, jobs }) {
  const off = (members) => members.filter((member) => member.severity >= 2);
  const parts = [];
  for (const [members, word] of [[edges, "edge"], [jobs, "job"]]) {
    const bad = off(members);
    if (bad.length === 1) parts.push(`${word} ${bad[0].name} ${predicate(bad[0])}`);
    else if (bad.length > 1) parts.push(`${count(bad.length)} of ${plural(members.length, word)} need attention`);
  }
  if (parts.length > 0) return parts.join(", and ").replace(/^[a-z]/, (letter) => letter.toUpperCase());
  const lagging = [...edges, ...jobs].filter((member) => member.severity === 1);
  const counted = [[edges.length, "edge"], [jobs.length, "job"]].filter(([number]) => number > 0).map(([number, word]) => plural(number, word));
  if (lagging.length === 1) return `${counted.join(" and ")}, one of them worth a look: ${lagging[0].name}`;
  if (lagging.length > 1) return `${counted.join(" and ")}, ${count(lagging.length)} of them worth a look`;
  return counted.length > 0 ? `${counted.join(" and ")}, all ready` : "Nothing to watch yet";
}

function headlinePart() {
  const mark = h("span", { class: "mark" });
  const text = h("h1", null);
  const element = h("div", { class: "headline" }, mark, text);
  const update = (document_) => {
    const worst = Math.max(0, ...[...document_.edges, ...document_.jobs].map((member) => member.severity));
    const state = document_.edges.length + document_.jobs.length === 0 ? "unknown" : ["ready", "lagging", "not_ready", "down"][Math.min(3, worst)];
    if (element.dataset.shown !== state) {
      element.dataset.shown = state;
      element.dataset.tone = { ready: "good", unknown: "none", down: "bad" }[state] ?? "warn";
      mark.replaceChildren(shape(state));
    }
    setText(text, sentence(document_));
  };
  return { element, update };
}

function tilePart(tile) {
  const number = h("span", { class: "number" });
  const note = h("span", { class: "note" });
  const line = new Sparkline(120, 26);
  const element = h("div", { class: "tile" }, h("dt", null, tile.title), h("dd", null, number, note, line.element));
  const update = (document_, history) => {
    setText(number, tile.text(tile.value(document_)));
    const words = tile.note(document_);
    if (typeof words === "string") setText(note, words);
    else if (note.firstChild === null) note.append(words);
    line.update(history.get(`tile ${tile.name}`));
  };
  return { element, update };
}

function noTargets() {
  const command = (text) => h("p", { class: "command" }, h("code", null, text), copyButton(text, "command"));
  return empty(
    "No edges and no jobs are watched yet",
    h("p", null, "On this machine, start them; the console finds their status sockets:"),
    command("culm connector run"),
    command("culm job run all"),
    h("p", null, "Elsewhere, name their metrics ports in the settings file:"),
    command('[console]\ntargets = ["http://edge-1:9100", "http://jobs:9101"]'),
  );
}
