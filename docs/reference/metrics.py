"""Renders docs/metrics.md: every metric family that the code declares.

The families are read from the source, because a process exports only those of the protocols that it serves.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from docs.reference.markdown import cell, table

ROOT: Final = Path(__file__).parent.parent.parent
SOURCES: Final = ("connectors/culm_connectors", "streaming/culm_streaming")

_INTRODUCTION: Final = """\
# Metrics

This page lists every metric family of connectors and jobs. `python -m docs.reference` renders it from the
code; do not edit it. [Operating](operating.md#metrics) explains where they are served and which ones to
watch.

A counter's name ends in `_total` where it is scraped; the table has the full names. A histogram has the
series `_bucket`, `_sum` and `_count`. Besides these, both kinds of process export the standard families
`process_…` and `python_gc_…`. Labels are names of protocols, topics, codes and reasons, never peers.
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


@dataclass(frozen=True, slots=True, order=True)
class Family:
    """One metric family, as it is scraped."""

    section: str
    name: str
    kind: str
    labels: tuple[str, ...]
    text: str


def render() -> str:
    """Return the page."""
    known = families()
    parts = [_INTRODUCTION]
    for section, (title, text) in _SECTIONS.items():
        rows = [family for family in known if family.section == section]
        if rows:
            parts.append(f"## {title}\n" + (f"\n{text}\n" if text else ""))
            parts.append(table(("metric", "type", "labels", "meaning"), map(_row, rows)))
    return "\n".join(parts)


def _row(family: Family) -> tuple[str, str, str, str]:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    text = family.text[:1].upper() + family.text[1:]
    return f"`{family.name}`", family.kind, labels, cell(text.rstrip("."))


def families() -> list[Family]:
    """Return all families, sorted, each once."""
    known: dict[tuple[bool, str], Family] = {}
    for source in SOURCES:
        for path in sorted((ROOT / source).rglob("*.py")):
            for family in _families(path):
                known.setdefault((family.section == "job", family.name), family)
    return sorted(known.values())


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
        yield Family(_section(path, name, labels), full, kind, labels, text)


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
