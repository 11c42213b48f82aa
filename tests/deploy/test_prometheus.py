"""A real Prometheus scrapes every family that is exported, and answers every expression of the dashboards."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.grafana.render import DASHBOARDS
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from culm_infra.patience import Patience
from culm_infra.stack.ports import HOST, free_ports
from culm_topics.errors import TopicsError
from culm_topics.status_server import serve_status
from docs.reference import metrics
from tests.deploy import expressions
from tests.deploy.tools import debian_tool

pytestmark = pytest.mark.deploy

VALUES = {
    "protocol": [name for name in expressions.values()["protocol"] if name],
    "query": [name for name in expressions.values()["query"] if name],
    "code": ["bamboo.signature", "bamboo.fork"],
}
"""Values of labels; other labels have one."""


class Exported:
    """A collector with a series of every family and label value: counters grow, and gauges are 1."""

    def __init__(self, *, of_jobs: bool) -> None:
        self._families = [each for each in metrics.families() if (each.section == "job") == of_jobs]
        self._scrapes = 0

    def describe(self) -> Iterator[Metric]:
        return iter(())

    def collect(self) -> Iterator[Metric]:
        self._scrapes += 1
        for family in self._families:
            name = family.name.removesuffix("_total")
            rows = list(product(*(VALUES.get(label, ["one"]) for label in family.labels)))
            if family.kind == "histogram":
                histogram = HistogramMetricFamily(name, family.text, labels=family.labels)
                for row in rows:
                    buckets = [("0.1", self._scrapes), ("+Inf", 2 * self._scrapes)]
                    histogram.add_metric(row, buckets, sum_value=self._scrapes)
                yield histogram
                continue
            is_counter = family.kind == "counter"
            value = self._scrapes if is_counter else time.time() - 9 if "timestamp" in name else 1
            made = (CounterMetricFamily if is_counter else GaugeMetricFamily)(
                name, family.text, labels=family.labels
            )
            for row in rows:
                made.add_metric(row, value)
            yield made


@contextlib.contextmanager
def exporting(*, of_jobs: bool) -> Iterator[int]:
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    collector: Any = Exported(of_jobs=of_jobs)
    registry.register(collector)

    def refused(message: str, *, hint: str) -> TopicsError:
        return TopicsError(f"{message} ({hint})")

    with serve_status("127.0.0.1", 0, registry, why_not_ready=tuple, port_error=refused) as port:
        yield port


class Prometheus:
    """A running Prometheus."""

    def __init__(self, port: int) -> None:
        self._url = f"http://127.0.0.1:{port}/api/v1/"

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer. Raises `OSError` while it does not answer, `AssertionError` for an error."""
        try:
            with urllib.request.urlopen(
                f"{self._url}{path}?{urllib.parse.urlencode(query)}", timeout=30
            ) as got:
                answer = json.load(got)
        except urllib.error.HTTPError as error:
            if error.code == 503:
                raise
            answer = json.load(error)
        assert answer["status"] == "success", (query, answer)
        return answer["data"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    program = debian_tool("prometheus", "usr/bin/prometheus")
    with contextlib.ExitStack() as stack:
        ports = {
            "culm-connector": stack.enter_context(exporting(of_jobs=False)),
            "culm-jobs": stack.enter_context(exporting(of_jobs=True)),
        }
        example = yaml.safe_load((expressions.RULES.parent / "prometheus.yaml").read_text(encoding="utf-8"))
        example["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        example["rule_files"] = [str(expressions.RULES)]
        for each in example["scrape_configs"]:
            each["static_configs"][0]["targets"] = [f"127.0.0.1:{ports[each['job_name']]}"]
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(example), encoding="utf-8")
        (port,) = free_ports(1)
        arguments = {
            "config.file": folder / "prometheus.yaml",
            "storage.tsdb.path": folder / "data",
            "web.listen-address": f"{HOST}:{port}",
        }
        log = stack.enter_context((folder / "log").open("wb"))
        process = subprocess.Popen(
            [str(program), *(f"--{name}={value}" for name, value in arguments.items())],
            stdout=log,
            stderr=log,
        )
        try:
            yield Prometheus(port)
        finally:
            process.terminate()
            process.wait(60)


def panel_expressions(path: Path) -> list[str]:
    """The expressions of a dashboard for all values of its variables."""
    model = json.loads(path.read_text(encoding="utf-8"))
    written = [target["expr"] for panel in model["panels"] for target in panel.get("targets", ())]
    return [
        re.sub(r"\$\{?\w+\}?", ".*", each.replace("$__rate_interval", "10s").replace("[10m]", "[10s]"))
        for each in written
    ]


@pytest.mark.parametrize("path", sorted(DASHBOARDS), ids=lambda path: path.stem)
def test_prometheus_answers_every_expression_of_a_dashboard_with_data(
    path: Path, prometheus: Prometheus
) -> None:
    empty = panel_expressions(path)
    patience = Patience(60.0, lambda: (len(empty), series_held(prometheus)))
    while empty:
        with contextlib.suppress(OSError):
            empty = [each for each in empty if not prometheus.get("query", query=each)["result"]]
        patience.check(f"data for {empty}")
        time.sleep(0.5)


def series_held(prometheus: Prometheus) -> int:
    """Series that Prometheus has begun to keep; 0 while it does not answer."""
    try:
        return int(prometheus.get("status/tsdb")["headStats"]["numSeries"])
    except OSError:
        return 0


def test_prometheus_evaluates_every_rule(prometheus: Prometheus) -> None:
    patience = Patience(60.0, lambda: series_held(prometheus))
    while True:
        with contextlib.suppress(OSError):
            groups = prometheus.get("rules")["groups"]
            states = {rule["name"]: rule["health"] for group in groups for rule in group["rules"]}
            if "unknown" not in states.values():
                break
        patience.check("an evaluation of every rule")
        time.sleep(0.5)
    assert set(states) == {rule.get("alert") or rule["record"] for rule in expressions.rules()}
    assert set(states.values()) == {"ok"}
