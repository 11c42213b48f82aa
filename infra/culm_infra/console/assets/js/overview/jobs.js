/** The jobs: one row per query, with the process that runs it. */

import { h, setAttribute, setText } from "../dom.js";
import { ago, count, dateTimeAgo, rate, shortCount } from "../format.js";
import { setBadge } from "../icons.js";
import { cell } from "../listing.js";
import { Sparkline } from "../series.js";
import { setList, showTarget, warnings } from "./edges.js";
import { section } from "./sections.js";

const COLUMNS = [
  { title: "State", kind: "state" },
  { title: "Job", kind: "name" },
  { title: "Lag", kind: "number trend small" },
  { title: "Rows", kind: "number trend" },
  { title: "Checkpoint", kind: "number" },
  { title: "State rows", kind: "number" },
  { title: "Failures", kind: "number" },
  { title: "Rejected", kind: "number" },
];

const RECENT_MS = 600_000;

/** States of a process that answers. If it does not answer, its queries have its state. */
const LIVE = new Set(["ready", "not_ready", "draining"]);

function stateOf({ job, query, severity }) {
  if (query === null || !LIVE.has(job.state)) return job.state;
  return query.state === "running" && job.state === "ready" && severity > 0 && query.lag_records > 0 ? "lagging" : query.state;
}

const FINE = new Set(["running", "starting", "done"]);
const isFine = (query) => FINE.has(query.state);

/** Rows of all queries; those of one process stand together, failing ones first. */
function* flat(jobs) {
  for (const job of jobs) {
    if (job.queries.length === 0) yield { key: job.id, job, query: null, isFirst: true, severity: job.severity };
    const queries = [...job.queries].sort((a, b) => isFine(a) - isFine(b));
    const hasBroken = queries.some((query) => !isFine(query));
    for (const query of queries) {
      const severity = hasBroken && isFine(query) && LIVE.has(job.state) ? 0 : job.severity;
      yield { key: `${job.id}\n${query.job}`, job, query, isFirst: query === queries[0], severity };
    }
  }
}

export function jobSection(open) {
  const made = section({
    title: "Jobs",
    columns: COLUMNS,
    key: (item) => item.key,
    row: jobRow,
    words: ({ job, query }) => [job.name, job.target, job.version, job.state, query?.job, query?.state, ...job.reasons].join(" "),
    state: stateOf,
    open: (key) => open(`#/job/${encodeURIComponent(key.split("\n")[0])}`),
    none: "No job is watched. “culm job run all” starts them on this machine; [console] targets names others.",
  });
  return { element: made.element, update: (jobs, context) => made.update([...flat(jobs)], context) };
}

function jobRow({ job, query }) {
  const state = h("span");
  const name = h("strong");
  const process = h("span", { class: "sub" });
  const reasons = h("ul", { class: "reasons" });
  const numbers = COLUMNS.slice(2).map(() => h("span", { class: "value" }));
  const lines = ["lag", "rows"].map((what) => [`query ${job.id} ${query?.job} ${what}`, new Sparkline()]);
  const element = h(
    "tr",
    { role: "row" },
    cell(COLUMNS[0], state),
    cell(COLUMNS[1], name, process, reasons),
    numbers.map((number, at) => cell(COLUMNS[at + 2], lines[at]?.[1].element ?? null, number)),
  );
  const update = (item, { now, history }) => {
    const current = item.query;
    const shown = stateOf(item);
    setAttribute(element, "data-severity", item.severity);
    setBadge(state, shown);
    setText(name, current?.job ?? item.job.name);
    showTarget(process, current === null || current.job === item.job.name ? item.job.target : item.job.name, null);
    const error = current?.last_error;
    const isRecent = error && (!isFine(current) || now - error.time_ms < RECENT_MS);
    const causes = isRecent ? [[error.cause, error.hint].filter(Boolean).join(". ")] : [];
    setList(reasons, [...(item.isFirst ? item.job.reasons : []), ...causes]);
    const values = [
      shortCount(current?.lag_records),
      rate(current?.rows_per_second),
      ago(current?.checkpoint_ms, now),
      shortCount(current?.state_rows),
      count(current?.failures),
      count(current?.rejected),
    ];
    values.forEach((value, at) => setText(numbers[at], value));
    for (const [series, line] of lines) line.update(history.get(series));
  };
  return { element, update };
}

/** Return fields and sections of the panel of a process that runs jobs. */
export function jobDetail(job, now) {
  const errors = job.queries.filter((query) => query.last_error);
  const queriesSection = {
    title: "Queries",
    columns: [
      { title: "Job", kind: "text" },
      { title: "State", kind: "state" },
      { title: "Lag", kind: "count" },
      { title: "Rows/s", kind: "count" },
      { title: "Last checkpoint", kind: "time" },
      { title: "State rows", kind: "count" },
      { title: "Failures", kind: "count" },
      { title: "Rejected", kind: "count" },
    ],
    rows: job.queries.map((query) => [
      query.job,
      query.state,
      query.lag_records,
      query.rows_per_second,
      query.checkpoint_ms,
      query.state_rows,
      query.failures,
      query.rejected,
    ]),
    note: job.queries.length === 0 ? "The queries are known once the process answers." : null,
  };
  const errorsSection = {
    title: "Last errors",
    columns: [
      { title: "Time", kind: "time" },
      { title: "Job", kind: "text" },
      { title: "Kind", kind: "text" },
      { title: "Cause", kind: "text" },
      { title: "What to do", kind: "text" },
    ],
    rows: errors.map(({ job: name, last_error: error }) => [error.time_ms, name, error.kind, error.cause, error.hint]),
    note: null,
  };
  return {
    kind: "Jobs",
    title: job.name,
    state: job.state,
    reasons: job.reasons,
    fields: [
      ["Target", job.target, "text"],
      ["Version", job.version, "text"],
      ["In this state since", job.since_ms, "time"],
      ["Last answer", dateTimeAgo(job.seen_ms, now), "text"],
      ["Read from", job.source === "socket" ? "status socket" : "metrics port", "text"],
    ],
    sections: [queriesSection, ...(errors.length > 0 ? [errorsSection] : []), warnings(job.warnings)],
  };
}
