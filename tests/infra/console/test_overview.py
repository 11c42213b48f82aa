"""The overview: states, their order, rates, and pushes; a bad target never stops the others."""

from __future__ import annotations

import asyncio
import itertools
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from pathlib import Path
from typing import Any

import pytest

from culm_infra.console.overview.rates import LAG_RECORDS, LagWatch, Rates
from culm_infra.console.overview.reading import NoReading, TargetReading
from culm_infra.console.overview.status_document import read_document
from culm_infra.console.overview.target_state import TargetState
from culm_infra.console.overview.targets import SocketTarget
from culm_topics.status_socket import status_socket
from tests.support.console import documents
from tests.support.console.documents import PROTOCOL, encoded
from tests.support.console.fake_targets import answers, at_port, at_socket, endless, http, silent
from tests.support.console.served import ServedConsole, serving


def states(overview: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["state"] for each in (*overview["edges"], *overview["jobs"])}


async def until(console: ServedConsole, wanted: dict[str, str]) -> dict[str, Any]:
    """Wait for an overview with these states; the test's own limit ends the waiting."""
    async with aclosing(console.events()) as events:
        async for overview in events:
            if states(overview) == wanted:
                return overview
    raise AssertionError("the events have ended")


async def test_good_targets_are_shown_beside_every_kind_of_bad_one(tmp_path: Path) -> None:
    left_behind = socket.socket(socket.AF_UNIX)
    (tmp_path / "killed").mkdir()
    left_behind.bind(str(tmp_path / "killed" / "status.sock"))
    left_behind.close()
    async with AsyncExitStack() as stack:
        for name, serve in {
            "good": answers(encoded(documents.connector())),
            "starting": answers(encoded(documents.connector(("building the index",)))),
            "draining": answers(encoded(documents.connector(("draining",)))),
            "older": answers(encoded(documents.connector(format=0))),
            "garbage": answers(b"\x00" * 1_000),
            "endless": endless,
            "silent": silent,
        }.items():
            await stack.enter_async_context(at_socket(tmp_path / name / "status.sock", serve))
        jobs = await stack.enter_async_context(at_port(http(documents.job_metrics())))
        console = await stack.enter_async_context(
            serving(targets=[f"unix:{tmp_path}/*/status.sock", jobs, f"unix:{tmp_path}/never/status.sock"])
        )
        overview = await until(
            console,
            {
                "killed": "down",
                "never": "down",
                "silent": "down",
                "endless": "unknown",
                "garbage": "unknown",
                "older": "older",
                "starting": "not_ready",
                "draining": "draining",
                "good": "ready",
                jobs.removeprefix("http://"): "ready",
            },
        )
        severities = [edge["severity"] for edge in overview["edges"]]
        assert severities == sorted(severities, reverse=True) == [3, 3, 3, 2, 2, 2, 2, 1, 0]
        assert [edge["name"] for edge in overview["edges"]][:3] == ["killed", "never", "silent"]
        good = overview["edges"][-1]
        assert (good["peers"], good["lag_records"], good["rejected"]) == (3, 12, 8)
        (query,) = overview["jobs"][0]["queries"]
        assert (query["job"], query["lag_records"]) == ("logs", 12)
        assert overview["kafka"]["state"] in ("down", "unknown")


async def test_a_change_of_state_is_pushed_and_the_rest_stays(tmp_path: Path) -> None:
    reasons: list[str] = []
    with status_socket(tmp_path / "b" / "status.sock", documents.connector):
        async with serving(targets=[f"unix:{tmp_path}/{name}/status.sock" for name in "ab"]) as console:
            await until(console, {"a": "down", "b": "ready"})
            with status_socket(tmp_path / "a" / "status.sock", lambda: documents.connector(tuple(reasons))):
                first = (await until(console, {"a": "ready", "b": "ready"}))["edges"][0]
                assert first["peer_id"] == "cd" * 32
                reasons.append("Kafka is away")
                overview = await until(console, {"a": "not_ready", "b": "ready"})
                assert overview["edges"][0]["reasons"] == ["Kafka is away"]
            last = (await until(console, {"a": "down", "b": "ready"}))["edges"][0]
            assert last["id"] == first["id"]
            assert last["peer_id"] == "cd" * 32
            assert (last["peers"], last["protocols"], last["received_bytes_per_s"]) == (None, [], None)
            assert last["since_ms"] >= first["since_ms"]


async def test_browsers_share_one_collector(tmp_path: Path) -> None:
    asked = itertools.count()

    def document() -> dict[str, Any]:
        next(asked)
        return documents.connector()

    async def two(events: AsyncIterator[dict[str, Any]]) -> None:
        await anext(events)
        await anext(events)

    with status_socket(tmp_path / "a" / "status.sock", document):
        async with serving(targets=[f"unix:{tmp_path}/a/status.sock"]) as console:
            await until(console, {"a": "ready"})
            before = next(asked)
            await asyncio.gather(*(two(console.events()) for _ in range(30)))
            # Once in two seconds, however many watch: thirty collectors would ask thirty times.
            assert next(asked) - before < 20


async def test_requests_without_an_answer_yet_wait_for_the_first_overview() -> None:
    async with serving() as console:
        overview = await console.overview()
        assert overview["edges"] == overview["jobs"] == overview["topics"] == []
        assert (overview["prefix"], overview["bootstrap"]) == ("culm.", "127.0.0.1:1")


def target_state() -> TargetState:
    return TargetState(SocketTarget(Path("/run/culm/edge/status.sock")))


def with_lag(records: int, **changes: Any) -> TargetReading:
    protocols = {"p2panda": PROTOCOL | {"lag": {"culm.logs": records}} | changes}
    return read_document(encoded(documents.connector(protocols=protocols, started_ms=1)))


def test_a_lag_that_does_not_shrink_needs_attention() -> None:
    state = target_state()
    for now_s in range(0, 28, 2):
        state.take(with_lag(LAG_RECORDS + now_s), now_s)
    assert state.document()["severity"] == 1
    assert state.take(with_lag(LAG_RECORDS + 40), 40.0)
    assert state.document()["severity"] == 2
    assert "the lag has not shrunk for half a minute" in state.document()["reasons"]
    state.take(with_lag(5), 42.0)
    assert (state.document()["severity"], state.document()["reasons"]) == (0, [])


def test_rates_are_differences_and_begin_anew_after_a_restart() -> None:
    state = target_state()
    for now_s in (0.0, 2.0, 4.0):
        state.take(with_lag(0, bytes_in=int(now_s * 100), bytes_out=7), now_s)
    document = state.document()
    assert (document["received_bytes_per_s"], document["sent_bytes_per_s"]) == (100.0, 0.0)
    assert document["protocols"][0]["received_bytes_per_s"] == 100.0
    state.take(with_lag(0, bytes_in=3, bytes_out=0), 6.0)
    assert state.document()["received_bytes_per_s"] is None


@pytest.mark.parametrize(
    ("change", "severity"), [({"stalled": True}, 2), ({"state": "restarting"}, 2), ({}, 0)]
)
def test_a_query_in_trouble_raises_the_severity_of_its_process(change: dict[str, Any], severity: int) -> None:
    document = documents.jobs()
    document["queries"][0] |= change
    state = TargetState(SocketTarget(Path("/run/culm/job-culm-all.sock")))
    state.take(read_document(encoded(document)), 0.0)
    assert state.document()["severity"] == severity
    state.fail(NoReading("down", "nothing runs"), 1.0)
    assert [query["state"] for query in state.document()["queries"]] == ["down"]


def test_lag_and_rates_need_time_and_samples() -> None:
    watch, rates = LagWatch(), Rates()
    assert not watch.grows
    watch.add(0.0, 10**6)
    assert not watch.grows
    watch.add(100.0, None)
    assert not watch.grows
    rates.add(0.0, {"a": 1})
    assert rates.of("a") is None
    assert rates.of("b") is None
