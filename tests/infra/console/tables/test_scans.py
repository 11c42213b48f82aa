"""Scans for details end at their limit, and when nobody waits for them; only a few run at a time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest
from starlette.requests import Request

from culm_infra.console.tables import ConsoleTable, Detail, TablePage, TableSpec
from culm_infra.console.tables.scan import CANCELLED, Scans, newest
from culm_infra.console.tables_route import TableRoutes
from culm_infra.errors import InfraError
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import write_records

KEY = b"wanted"


def test_more_scans_than_two_are_refused() -> None:
    scans = Scans(5.0)
    with scans.open(), scans.open():
        with pytest.raises(InfraError, match="2 other details"), scans.open():
            pass
        assert scans.without_reading().complete
    with scans.open():
        pass


def test_a_scan_without_time_is_not_complete() -> None:
    with Scans(0.0).open() as scan:
        assert not scan.goes_on
    assert not scan.result().complete


def test_a_scan_ends_when_the_client_has_gone() -> None:
    event = threading.Event()
    token = CANCELLED.set(event)
    try:
        with Scans(60.0).open() as scan:
            assert scan.goes_on
            event.set()
            assert not scan.goes_on
    finally:
        CANCELLED.reset(token)


class ScanningTable(ConsoleTable):
    """A table whose details scan until their scan may not go on."""

    spec = TableSpec("scanning", "all", "Scanning", "Scans.", (), "")

    def page(self, search: str, cursor: str, limit: int) -> TablePage:
        return TablePage((), None, 0, True, None, 0)

    def detail(self, key: str) -> Detail:
        pause = threading.Event()
        with Scans(60.0).open() as scan:
            while scan.goes_on:
                pause.wait(0.01)
            return Detail(key, (), (), scan.result())


async def test_a_scan_is_cancelled_when_the_connection_is_closed() -> None:
    events: list[Mapping[str, Any]] = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"", "more_body": False},
    ]

    async def receive() -> Any:
        return events.pop()

    routes = TableRoutes({"scanning": ScanningTable()})
    parameters = {"name": "scanning", "key": "key"}
    scope = {"type": "http", "method": "GET", "path": "/", "path_params": parameters, "headers": []}
    try:
        answer = await routes.detail(Request(scope, receive))
    finally:
        routes.close()
    assert b'"complete":false' in answer.body


@pytest.mark.parametrize("limit", ["0", "201", "0000000201", "00000000010000", "-1", "1.0", "", "١"])
async def test_a_page_has_at_most_200_rows(limit: str) -> None:
    routes = TableRoutes({"scanning": ScanningTable()})
    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "path_params": {"name": "scanning"},
        "query_string": f"limit={quote(limit)}".encode(),
        "headers": [],
    }
    try:
        answer = await routes.page(Request(scope))
    finally:
        routes.close()
    assert answer.status_code == 400
    assert b"from 1 to 200" in answer.body


@pytest.mark.kafka
def test_the_newest_records_of_a_key_are_found_far_from_the_end(kafka: KafkaSettings) -> None:
    wanted = [(1, KEY, b"%d" % number) for number in range(3)]
    others = [(1, b"other", b"x")] * 40_000
    write_records(kafka, "logs", [wanted[0], *others, *wanted[1:], *others[:100]])
    with Scans(60.0).open() as scan:
        found = newest(scan, kafka, "logs", lambda _: 1, KEY, 2)
    assert ([message.value for message in found.messages], found.note) == ([b"2", b"1"], "the newest 2")
    assert scan.records < 2_000
    with Scans(60.0).open() as scan:
        found = newest(scan, kafka, "logs", lambda _: 1, KEY, 5)
    assert [message.value for message in found.messages] == [b"2", b"1", b"0"]
    assert (found.note, scan.result().complete, scan.records) == (None, True, 40_103)
    with Scans(0.0).open() as scan:
        found = newest(scan, kafka, "logs", lambda _: 1, KEY, 5)
    assert (found.messages, scan.result().complete) == ([], False)
    assert "were searched in this time" in str(found.note)


@pytest.mark.kafka
def test_a_topic_that_is_not_there_is_named(kafka_bootstrap: str, topic_prefix: str) -> None:
    with Scans(60.0).open() as scan:
        found = newest(
            scan, KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix), "logs", lambda _: 0, KEY, 2
        )
    assert "does not exist" in str(found.note)
