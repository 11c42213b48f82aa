"""Readings of status documents and metrics: all of a good one, and nothing that a hostile one sends."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from culm_infra.console.overview import metrics_text
from culm_infra.console.overview.metrics_text import read_metrics
from culm_infra.console.overview.reading import NoReading, TargetReading
from culm_infra.console.overview.status_document import read_document
from tests.support.console import documents
from tests.support.console.documents import encoded

METRICS_PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"
STANDARD = {"process_start_time_seconds"}


def test_a_connector_s_document_is_read() -> None:
    reading = read_document(encoded(documents.connector()))
    assert (reading.kind, reading.state, reading.peer_id) == ("edge", "ready", "cd" * 32)
    first, second = reading.protocols
    assert (first.name, first.ready, first.connections, first.lag_records) == ("p2panda", True, 2, 12)
    assert (first.received_bytes, first.sent_bytes, first.rejected) == (1_000, 2_000, 4)
    assert (first.sessions_failed, second.lag_records) == (1, None)


def test_the_document_of_jobs_is_read() -> None:
    reading = read_document(encoded(documents.jobs()))
    assert (reading.kind, reading.state, reading.name) == ("job", "ready", "all")
    (query,) = reading.queries
    assert (query.job, query.state, query.lag_records, query.rejected) == ("logs", "running", 12, 10)
    assert (query.rows_per_second, query.state_rows) == (10.0, 4)
    assert query.checkpoint_ms == documents.COMMITTED_MS


@pytest.mark.parametrize(
    ("reasons", "state"),
    [((), "ready"), (("building the index",), "not_ready"), (("draining",), "draining")],
)
def test_the_reasons_tell_the_state(reasons: tuple[str, ...], state: str) -> None:
    reading = read_document(encoded(documents.connector(reasons)))
    assert (reading.state, tuple(reading.reasons)) == (state, reasons)
    text = b"\n".join(reason.encode() for reason in reasons)
    from_metrics = read_metrics(
        documents.connector_metrics(ready=not reasons), text.decode().split("\n"), is_ready=not reasons
    )
    assert from_metrics.state == state


def test_the_metrics_of_a_connector_say_the_same() -> None:
    reading = read_metrics(documents.connector_metrics(), (), is_ready=True)
    assert (reading.kind, reading.state, reading.version) == ("edge", "ready", "1.2.3")
    assert reading.last_progress_ms == 1_700_000_000_500
    first, second = reading.protocols
    assert (first.name, first.connections, first.lag_records, first.rejected) == ("p2panda", 2, 15, 4)
    assert (first.received_bytes, first.sent_bytes, first.sessions_failed) == (1_000, 2_000, 2)
    assert (second.name, second.connections, second.lag_records) == ("sds", 1, None)


def test_the_metrics_of_jobs_say_the_same() -> None:
    reading = read_metrics(documents.job_metrics(), (), is_ready=True)
    assert (reading.kind, reading.state) == ("job", "ready")
    (query,) = reading.queries
    assert (query.job, query.state, query.lag_records, query.rejected) == ("logs", "running", 12, 10)
    assert (query.rows_in, query.failures, query.state_rows) == (600, 1, 4)
    assert query.checkpoint_ms == documents.COMMITTED_MS


def test_every_metric_that_is_read_exists() -> None:
    known = set(re.findall(r"^\| `(\w+)`", METRICS_PAGE.read_text(), re.MULTILINE))
    assert known >= metrics_text.NAMES - STANDARD


@pytest.mark.parametrize(
    ("answer", "state", "reason"),
    [
        (b"", "unknown", "not a JSON document"),
        (b"\xff\xfe", "unknown", "not a JSON document"),
        (b"[" * 100_000, "unknown", "not a JSON document"),
        (b"[]", "unknown", "not a status document"),
        (b'{"format": "1"}', "unknown", "not a status document"),
        (b'{"format": 0, "kind": "connector"}', "older", "update that process"),
        (b'{"format": 99}', "unknown", "update this console"),
        (b'{"format": 1, "kind": "kettle"}', "unknown", "kettle"),
        (b'{"format": 1, "kind": ["job"]}', "unknown", "kind"),
    ],
)
def test_other_answers_than_documents_are_named(answer: bytes, state: str, reason: str) -> None:
    with pytest.raises(NoReading, match=reason) as failure:
        read_document(answer)
    assert failure.value.state == state


@pytest.mark.parametrize(
    ("body", "state"),
    [
        (b"", "unknown"),
        (b"\xff", "unknown"),
        (b"<html>hello</html>", "unknown"),
        (b"go_goroutines 7\n", "unknown"),
        (b'culm_build_info{version="0.0.1"} 1\n', "older"),
        (b"# HELP culm_something x\nculm_something 1\n", "older"),
        (b'culm_build_info{version="0.0.1" 1\n', "unknown"),
        (b"culm_connector_ready one\n", "unknown"),
    ],
)
def test_other_answers_than_metrics_of_this_version_are_named(body: bytes, state: str) -> None:
    with pytest.raises(NoReading) as failure:
        read_metrics(body, (), is_ready=True)
    assert failure.value.state == state


HOSTILE: tuple[Any, ...] = (
    None, True, -1, 1.5, 10**30, float("inf"), float("nan"), "", "x" * 100_000, "\x1b[2J\u202e", [], {}, [[]],
    [None] * 1_000, {"": None}, {"a": {"b": []}}, [{"time_ms": "never"}], {str(n): 1 for n in range(1_000)},
)  # fmt: skip


def _paths(node: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if above:
        yield above
    for key, inner in (
        node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    ):
        yield from _paths(inner, (*above, key))


def _replaced(node: Any, path: tuple[Any, ...], value: Any) -> Any:
    copy = json.loads(json.dumps(node))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


@pytest.mark.parametrize("document", [documents.connector(), documents.jobs()], ids=["connector", "jobs"])
def test_no_value_of_a_document_stops_the_reader_or_takes_much_memory(document: dict[str, Any]) -> None:
    for path in _paths(document):
        for value in HOSTILE:
            try:
                reading = read_document(encoded(_replaced(document, path, value)))
            except NoReading:
                continue
            _check_bounds(reading)


def test_no_text_of_metrics_stops_the_reader() -> None:
    chooser = random.Random(7)
    text = documents.connector_metrics()
    for _ in range(300):
        body = bytearray(text)
        for _ in range(5):
            body[chooser.randrange(len(body))] = chooser.randrange(256)
        try:
            reading = read_metrics(bytes(body), (), is_ready=True)
        except NoReading:
            continue
        _check_bounds(reading)


def test_metrics_with_many_names_and_lines_are_bounded() -> None:
    lines = [f'culm_connections{{protocol="p{number}"}} 1' for number in range(50_000)]
    body = "\n".join(["culm_connector_ready 1", *lines]).encode()
    reading = read_metrics(body, (), is_ready=True)
    assert len(reading.protocols) <= 64
    _check_bounds(reading)


def _check_bounds(reading: TargetReading) -> None:
    """Browsers can parse it, it is small, and no text has control characters."""
    text = json.dumps(asdict(reading), allow_nan=False)
    assert len(text) < 100_000
    assert "\\u001b" not in text and "\\u202e" not in text
