/** The edges: what serves the peers. */

import { h, setAttribute, setChildren, setText } from "../dom.js";
import { ago, byteRate, count, dateTimeAgo, middle, shortCount } from "../format.js";
import { setBadge, shape, stateTone, stateWord } from "../icons.js";
import { cell } from "../listing.js";
import { Sparkline } from "../series.js";
import { protocolTitle } from "../shell.js";
import { section } from "./sections.js";

const COLUMNS = [
  { title: "State", kind: "state" },
  { title: "Edge", kind: "name" },
  { title: "Protocols", kind: "chips" },
  { title: "Peers", kind: "number" },
  { title: "Lag", kind: "number trend small" },
  { title: "Received", kind: "number trend" },
  { title: "Sent", kind: "number trend" },
  { title: "Progress", kind: "number" },
  { title: "Rejected", kind: "number" },
];

/** An edge that is ready and has a severity lags. */
const edgeState = (edge) => (edge.state === "ready" && edge.severity > 0 ? "lagging" : edge.state);

export const edgeSection = (open) =>
  section({
    title: "Edges",
    columns: COLUMNS,
    key: (edge) => edge.id,
    row: edgeRow,
    words: (edge) => [edge.name, edge.target, edge.peer_id, edge.version, edge.state, ...edge.reasons, ...edge.protocols.map((protocol) => protocol.name)].join(" "),
    state: edgeState,
    open: (key) => open(`#/edge/${encodeURIComponent(key)}`),
    none: "No edge is watched. “culm connector run” starts one on this machine; [console] targets names others.",
  });

function edgeRow(edge) {
  const state = h("span");
  const name = h("strong");
  const target = h("span", { class: "sub" });
  const reasons = h("ul", { class: "reasons" });
  const chips = h("ul", { class: "chips" });
  const numbers = COLUMNS.slice(3).map(() => h("span", { class: "value" }));
  const lines = ["lag", "in", "out"].map((what) => [`edge ${edge.id} ${what}`, new Sparkline(48)]);
  const cells = [
    cell(COLUMNS[0], state),
    cell(COLUMNS[1], name, target, reasons),
    cell(COLUMNS[2], chips),
    ...numbers.map((number, at) => cell(COLUMNS[at + 3], at >= 1 && at <= 3 ? lines[at - 1][1].element : null, number)),
  ];
  const element = h("tr", { role: "row" }, cells);
  const update = (item, { now, history }) => {
    setAttribute(element, "data-severity", item.severity);
    setBadge(state, edgeState(item));
    setText(name, item.name);
    showTarget(target, item.target, item.name);
    // An edge without an answer has no protocols: its reasons get their place.
    setAttribute(cells[1], "colspan", item.protocols.length === 0 ? 2 : null);
    cells[2].hidden = item.protocols.length === 0;
    setList(reasons, item.reasons);
    setChips(chips, item.protocols);
    const values = [
      count(item.peers),
      shortCount(item.lag_records),
      byteRate(item.received_bytes_per_s),
      byteRate(item.sent_bytes_per_s),
      ago(item.last_progress_ms, now),
      count(item.rejected),
    ];
    values.forEach((value, at) => setText(numbers[at], value));
    for (const [series, line] of lines) line.update(history.get(series));
  };
  return { element, update };
}

/** Show where a process is read, without the scheme and shortened in the middle. */
export function showTarget(place, target, name) {
  const text = String(target ?? "").replace(/^(http:\/\/|unix:)/, "");
  const shown = text === name ? "" : middle(text, 34);
  setAttribute(place, "data-full", shown === text || shown === "" ? null : text);
  setText(place, shown);
}

/** Show texts as a list, only if they changed. */
export function setList(place, texts) {
  const key = JSON.stringify(texts);
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  place.hidden = texts.length === 0;
  setChildren(place, texts.map((text) => h("li", null, text)));
}

/** The metrics port does not say which protocols are ready. */
const readiness = (protocol) => ({ true: "ready", false: "not_ready" })[protocol.ready] ?? "unknown";

function setChips(place, protocols) {
  const key = JSON.stringify(protocols.map((protocol) => [protocol.name, protocol.ready, protocol.connections]));
  if (place.dataset.shown === key) return;
  place.dataset.shown = key;
  setChildren(
    place,
    protocols.map((protocol) =>
      h(
        "li",
        { class: "chip", "data-tone": stateTone(readiness(protocol)) },
        shape(readiness(protocol)),
        h("span", null, protocolTitle(protocol.name)),
        protocol.ready === true ? null : h("span", { class: "unseen" }, ` ${stateWord(readiness(protocol)).toLowerCase()}`),
        protocol.connections === null ? null : h("span", { class: "many" }, count(protocol.connections), h("span", { class: "unseen" }, " connections")),
      ),
    ),
  );
}

/** Return fields and sections of the panel of an edge. */
export function edgeDetail(edge, now) {
  return {
    kind: "Edge",
    title: edge.name,
    state: edgeState(edge),
    reasons: edge.reasons,
    fields: [
      ["Target", edge.target, "text"],
      ["Peer id", edge.peer_id, "id"],
      ["Version", edge.version, "text"],
      ["In this state since", edge.since_ms, "time"],
      ["Last answer", dateTimeAgo(edge.seen_ms, now), "text"],
      ["Last progress", dateTimeAgo(edge.last_progress_ms, now), "text"],
      ["Read from", edge.source === "socket" ? "status socket" : "metrics port", "text"],
    ],
    sections: [
      {
        title: "Protocols",
        columns: [
          { title: "Protocol", kind: "text" },
          { title: "State", kind: "state" },
          { title: "Peers", kind: "count" },
          { title: "Lag", kind: "count" },
          { title: "Received", kind: "rate" },
          { title: "Sent", kind: "rate" },
          { title: "Rejected", kind: "count" },
          { title: "Failed sessions", kind: "count" },
        ],
        rows: edge.protocols.map((protocol) => [
          protocolTitle(protocol.name),
          readiness(protocol),
          protocol.connections,
          protocol.lag_records,
          protocol.received_bytes_per_s,
          protocol.sent_bytes_per_s,
          protocol.rejected,
          protocol.sessions_failed,
        ]),
        note: edge.protocols.length === 0 ? "The protocols are known once the edge answers." : null,
      },
      warnings(edge.warnings),
    ],
  };
}

/** Return the section of warnings, newest first. */
export const warnings = (lines) => ({
  title: "Warnings",
  columns: [
    { title: "Time", kind: "time" },
    { title: "Level", kind: "text" },
    { title: "Message", kind: "text" },
  ],
  rows: [...(lines ?? [])].sort((a, b) => b.time_ms - a.time_ms).map((line) => [line.time_ms, line.level, line.message]),
  note: (lines ?? []).length === 0 ? "No warnings are known. Only a status socket reports them." : null,
});
