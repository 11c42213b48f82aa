/** The topics of the deployment. */

import { h, setAttribute, setText } from "../dom.js";
import { count, rate, shortCount } from "../format.js";
import { setBadge } from "../icons.js";
import { cell } from "../listing.js";
import { Sparkline } from "../series.js";
import { section } from "./sections.js";

const COLUMNS = [
  { title: "State", kind: "state" },
  { title: "Topic", kind: "name" },
  { title: "Records", kind: "number" },
  { title: "New records", kind: "number trend" },
  { title: "Partitions", kind: "number" },
];

const stateOf = (topic) => (topic.readable ? "readable" : "unreadable");

export const topicSection = () =>
  section({
    title: "Topics",
    columns: COLUMNS,
    key: (topic) => topic.name,
    row: topicRow,
    words: (topic) => `${topic.name} ${topic.detail ?? ""} ${stateOf(topic)}`,
    state: stateOf,
    open: null,
    none: "No topic has this prefix. “culm topics create” creates the topics.",
  });

function topicRow(topic) {
  const state = h("span");
  const name = h("strong", { class: "topic" });
  const detail = h("ul", { class: "reasons" }, h("li"));
  const [records, news, partitions] = COLUMNS.slice(2).map(() => h("span", { class: "value" }));
  const line = new Sparkline();
  const element = h(
    "tr",
    { role: "row" },
    cell(COLUMNS[0], state),
    cell(COLUMNS[1], name, detail),
    cell(COLUMNS[2], records),
    cell(COLUMNS[3], line.element, news),
    cell(COLUMNS[4], partitions),
  );
  const update = (item, { history }) => {
    setAttribute(element, "data-severity", item.severity);
    setBadge(state, stateOf(item));
    setText(name, item.name);
    detail.hidden = !item.detail;
    setText(detail.firstChild, item.detail ?? "");
    setText(records, shortCount(item.records));
    setText(news, rate(item.records_per_s));
    setText(partitions, count(item.partitions));
    line.update(history.get(`topic ${topic.name}`));
  };
  return { element, update };
}
