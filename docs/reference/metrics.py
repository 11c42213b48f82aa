"""Renders docs/metrics.md: every metric family that the code declares.

The families are read from the source, because a process exports only those of the protocols that it serves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from docs.reference.markdown import cell, table

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = ("connectors/culm_connectors", "streaming/culm_streaming")

_INTRODUCTION: Final = """\
# Metrics

This page lists every metric family of connectors and jobs. `python -m docs.reference` renders it from the
code; do not edit it. [Operating](operating.md#metrics) explains where they are served and which ones to
watch, and [monitoring](deploy/monitoring.md) the alert rules and dashboards that use them.

A counter's name ends in `_total` where it is scraped; the table has the full names. A histogram has the
series `_bucket`, `_sum` and `_count`. The unit of a counter is what it counts; `0 or 1` is a condition that
does not hold or holds. The column `protocol` names the protocols that have a metric; it is empty for metrics
of the process. Besides these, both kinds of process export the standard families `process_…` and
`python_gc_…`. Labels are names of protocols, topics, codes, reasons and files, never peers.
"""

_SECTIONS: Final = {
    "shared": ("Shared by all protocols", "One family for all protocols, with the label `protocol`."),
    "connector": ("Of a connector", "The process, Kafka, and replicated logs."),
    "p2panda": ("p2panda", ""),
    "sds": ("SDS", ""),
    "chotki": ("Chotki", ""),
    "bamboo_p2p": ("Bamboo Point-2-Point", ""),
    "dag": ("DAG replication", ""),
    "job": ("Of jobs", "The label is `query`, because Prometheus itself uses `job`."),
}

_UNITS: Final = {
    **{
        unit: unit
        for unit in (
            *("blocks", "bytes", "channels", "commands", "connections", "datagrams", "entries", "events"),
            *("failures", "faults", "fields", "forks", "heads", "logs", "messages", "nodes", "packets"),
            *("payloads", "peers", "ranges", "reconciliations", "records", "reports", "requests", "schemas"),
            *("seconds", "sessions", "shards", "warnings"),
        )
    },
    **dict.fromkeys(("ready", "up", "full", "force"), "0 or 1"),
    "info": "1",
    "batches": "micro-batches",
    "rounds": "batches",
    "lookups": "ids",
    "memberships": "joins",
}
"""Unit by the last word of a name that says one."""
_OTHER_UNITS: Final = {
    "culm_bamboo_p2p_full_shares": "principals",
    "culm_bamboo_p2p_over_quota_total": "requests",
    "culm_chotki_epoch": "number",
    "culm_chotki_syncs_received_total": "diffs",
    "culm_chotki_unique_duplicates": "values",
    "culm_job_batch_id": "number",
    "culm_job_rejected_total": "records",
    "culm_job_rows_in_total": "records",
    "culm_job_rows_out_total": "records",
    "culm_job_state_rows": "keys",
    "culm_job_waiting": "logs",
    "culm_logs_repair_looks_total": "readings",
    "culm_p2panda_ignored_total": "messages",
    "culm_p2panda_node_rejected_total": "items",
    "culm_p2panda_nodes": "connections",
    "culm_rejected_total": "items",
    "culm_sds_history_sent_total": "messages",
}


@dataclass(frozen=True, slots=True, order=True)
class Family:
    """One metric family, as it is scraped."""

    section: str
    name: str
    kind: str
    labels: tuple[str, ...]
    text: str
    protocol: str

    @property
    def unit(self) -> str:
        """Unit of the values; empty if the name says none."""
        if self.name in _OTHER_UNITS:
            return _OTHER_UNITS[self.name]
        if self.name.endswith("_timestamp_seconds"):
            return "seconds since 1970"
        words = reversed(self.name.split("_"))
        return next((_UNITS[word] for word in words if word in _UNITS), "")


def render() -> str:
    """Return the page."""
    known = families()
    parts = [_INTRODUCTION]
    for section, (title, text) in _SECTIONS.items():
        rows = [family for family in known if family.section == section]
        if rows:
            parts.append(f"## {title}\n" + (f"\n{text}\n" if text else ""))
            parts.append(table(_COLUMNS, map(_row, rows)))
    return "\n".join(parts)


_COLUMNS: Final = ("metric", "type", "unit", "labels", "protocol", "meaning")


def _row(family: Family) -> tuple[str, ...]:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    text = family.text[:1].upper() + family.text[1:]
    return f"`{family.name}`", family.kind, family.unit, labels, family.protocol, cell(text.rstrip("."))


@cache
def families() -> tuple[Family, ...]:
    """Return all families, sorted, each once."""
    known: dict[tuple[bool, str], Family] = {}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            for family in _families(path):
                known.setdefault((family.section == "job", family.name), family)
    return tuple(sorted(known.values()))


def _families(path: Path) -> Iterator[Family]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    shared = path.name == "protocol_metrics.py"
    names = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        values = node.args if isinstance(node, ast.Call) else node.elts if isinstance(node, ast.Tuple) else []
        if len(values) < 2 or not (name := _text(values[0])).startswith("culm_"):
            continue
        text = _text(values[1], names)
        if not text:
            continue
        call = node if isinstance(node, ast.Call) else _call_above(node, parents)
        called = call.func.attr if call and isinstance(call.func, ast.Attribute) else ""
        called = call.func.id if call and isinstance(call.func, ast.Name) else called
        kind = _kind(called, _assigned_to(node, parents))
        labels = _labels(node, called, names, shared=shared or "edge/metrics" in str(path))
        if shared and "protocol" not in labels:
            labels = ("protocol", *labels)
        full = f"{name}_total" if kind == "counter" else name
        section = _section(path, name, labels)
        yield Family(section, full, kind, labels, text, _protocol(section, path, name))


def _text(node: ast.expr, names: dict[str, ast.expr] | None = None) -> str:
    if isinstance(node, ast.Name) and names and node.id in names:
        return _text(names[node.id])
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _call_above(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> ast.Call | None:
    above = parents.get(node)
    return above if isinstance(above, ast.Call) else None


def _assigned_to(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> str:
    while (above := parents.get(node)) is not None:
        if isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            return above.targets[0].id
        node = above
    return ""


def _kind(called: str, table_name: str) -> str:
    lower = called.lower()
    if "histogram" in lower:
        return "histogram"
    if "gauge" in lower or (not called and "GAUGES" in table_name):
        return "gauge"
    return "counter"


def _labels(node: ast.AST, called: str, names: dict[str, ast.expr], *, shared: bool) -> tuple[str, ...]:
    if not isinstance(node, ast.Call):
        return ()
    labels = next(
        (keyword.value for keyword in node.keywords if keyword.arg in ("labels", "labelnames")), None
    )
    if labels is None and len(node.args) > 2:
        labels = node.args[2]
    if isinstance(labels, ast.Name):
        labels = names.get(labels.id)
    if isinstance(labels, ast.List | ast.Tuple):
        return tuple("protocol" if isinstance(item, ast.Name) else _text(item) for item in labels.elts)
    label = _text(labels) if labels is not None else ""
    of_protocol = (
        ("protocol",) if shared and called == "counter_by" and isinstance(node.func, ast.Name) else ()
    )
    return (*of_protocol, label) if label else ()


def _section(path: Path, name: str, labels: tuple[str, ...]) -> str:
    if "culm_streaming" in path.parts:
        return "job"
    if "protocol" in labels:
        return "shared"
    for section in ("p2panda", "sds", "chotki", "bamboo_p2p", "dag"):
        if name.startswith(f"culm_{section}_"):
            return section
    return "connector"


def _protocol(section: str, path: Path, name: str) -> str:
    if section == "shared":
        return "all but SDS" if name.startswith("culm_sessions_") else "all"
    if section in ("job", "connector"):
        return "p2panda" if path.parent.name in ("logs", "lost_entries") else ""
    return _SECTIONS[section][0].removesuffix(" replication")
