"""Expressions of PromQL: which metrics and labels they name, and whether a process exports them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import promql_parser
import yaml
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from culm_connectors.protocols import PROTOCOLS
from culm_topics.catalogue.registry import CATALOGUE, JOBS
from docs.reference import error_codes, metrics
from tests.deploy.tools import ROOT

RULES: Final = ROOT / "infra" / "deploy" / "prometheus" / "rules.yaml"
TARGET_LABELS: Final = {"job", "instance"}
"""Labels that Prometheus itself adds to every series."""
_ALERT_LABELS: Final = {"alertname", "alertstate", "severity", "query", "protocol", "code", "file"}


@dataclass(frozen=True, slots=True)
class Selector:
    """One selector of series: the name of a metric, and its matchers by label."""

    name: str
    matchers: Mapping[str, tuple[str, str]]
    """Operator and value by label."""


def parse(expression: str) -> Any:
    """The syntax tree of an expression, in which Grafana's variables have any value."""
    text = expression.replace("$__rate_interval", "5m")
    return promql_parser.parse(re.sub(r"\$\{?\w+\}?", ".*", text))


def nodes(expression: str) -> Iterator[Any]:
    """Every node of the syntax tree."""
    found: list[Any] = []
    promql_parser.walk(parse(expression), found.append)
    yield from found


def selectors(expression: str) -> Iterator[Selector]:
    """The selectors of an expression."""
    for node in nodes(expression):
        if isinstance(node, promql_parser.VectorSelector):
            matchers = {matcher.name: (str(matcher.op), matcher.value) for matcher in node.matchers.matchers}
            yield Selector(str(node.name), matchers)


def grouping(expression: str) -> set[str]:
    """The labels by which an expression groups or matches series."""
    labels: set[str] = set()
    for node in nodes(expression):
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            labels |= set(node.modifier.labels)
        if isinstance(node, promql_parser.BinaryExpr) and node.modifier is not None:
            if node.modifier.matching is not None:
                labels |= set(node.modifier.matching.labels)
            labels |= set(node.modifier.group_labels or ())
    return labels


@cache
def rules() -> list[dict[str, Any]]:
    """Every rule of the file."""
    document = yaml.safe_load(RULES.read_text(encoding="utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


@cache
def series() -> Mapping[str, frozenset[str]]:
    """The labels of every series that Prometheus holds: exported, recorded, and its own."""
    labels: dict[str, set[str]] = {}
    for family in metrics.families():
        ends = ("_bucket", "_sum", "_count") if family.kind == "histogram" else ("",)
        for end in ends:
            own = {*family.labels, "le"} if end == "_bucket" else set(family.labels)
            labels.setdefault(f"{family.name}{end}", set()).update(own)
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    for metric in registry.collect():
        for sample in metric.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    labels["up"] = set()
    labels["ALERTS"] = _ALERT_LABELS
    for rule in rules():
        if "record" in rule:
            named = {label for each in selectors(rule["expr"]) for label in labels[each.name]}
            labels[rule["record"]] = (grouping(rule["expr"]) or named) - TARGET_LABELS
    return {name: frozenset(own | TARGET_LABELS) for name, own in labels.items()}


@cache
def values() -> Mapping[str, frozenset[str]]:
    """Every value of the labels whose values are known."""
    return {
        "protocol": frozenset((*(entry.name for entry in PROTOCOLS), "")),
        "query": frozenset((*(job.name for job in JOBS), "")),
        "code": frozenset(error_codes.meanings()),
        "topic": frozenset(topic.name for topic in CATALOGUE),
        "job": frozenset(("culm-connector", "culm-jobs")),
        "alertstate": frozenset(("firing", "pending")),
    }


def faults(expression: str) -> list[str]:
    """What is wrong with the metrics and labels of an expression."""
    wrong: list[str] = []
    known: set[str] = set()
    for each in selectors(expression):
        if each.name not in series():
            wrong.append(f"no metric {each.name}")
            continue
        own = series()[each.name]
        known |= own
        for label, (operator, value) in each.matchers.items():
            if label not in own and value:
                wrong.append(f"{each.name} has no label {label}")
            possible = values().get(label)
            if possible is None or ".*" in value:
                continue
            named = value.split("|") if "Re" in operator else [value]
            wrong += [f"{label} is never {single!r}" for single in named if single not in possible]
    wrong += [f"no series has the label {label}" for label in grouping(expression) - known]
    return wrong
