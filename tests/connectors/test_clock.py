"""A wall clock that jumps by a day, and what does not go by it; how many files a process may open."""

from __future__ import annotations

import inspect
import logging
import resource
import time
from collections.abc import AsyncGenerator, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors import open_files
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.chotki.local_state.state_follower import StateFollower
from culm_connectors.clock import steady_ms, steady_s, wall_ms
from culm_connectors.dag.edge.edge_folder import EdgeFolder
from culm_connectors.dag.store.folder import DagFolder
from culm_connectors.p2panda.announcements import AnnouncementTopic
from culm_connectors.p2panda.driver import Driver
from culm_connectors.sds.history import replay
from culm_connectors.sds.history.replay import read_events
from culm_topics.sds.keys import channel_key

_DAY_MS = 86_400_000
_JUMPS = pytest.mark.parametrize("days", [-2, -1, 1, 2])


@_JUMPS
def test_the_steady_clock_goes_on_when_somebody_sets_the_wall_clock(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    wall, steady = wall_ms(), steady_ms()
    monkeypatch.setattr(time, "time_ns", lambda: (wall + days * _DAY_MS) * 1_000_000)
    assert steady <= steady_ms() < steady + _DAY_MS


@pytest.mark.parametrize(
    ("made", "parameter"),
    [
        pytest.param(Driver, "now_ms", id="sessions of p2panda"),
        pytest.param(AnnouncementTopic, "now_ms", id="announcements that are repeated and forgotten"),
        pytest.param(read_events, "now_ms", id="events of SDS that wait for an earlier one"),
        pytest.param(FolderStore, "clock_s", id="payloads and spools of Bamboo"),
        pytest.param(DagFolder, "clock_s", id="spools and waiting nodes of a DAG folder"),
        pytest.param(EdgeFolder, "clock_s", id="those of an edge"),
    ],
)
def test_what_ages_and_waits_goes_by_the_steady_clock(made: Callable[..., object], parameter: str) -> None:
    assert inspect.signature(made).parameters[parameter].default in (steady_ms, steady_s)


@pytest.mark.parametrize(
    ("wall_days", "steady_days", "is_behind"),
    [(0, 0, False), (1, 0, False), (0, 1, False), (-1, 0, False), (1, 1, True)],
)
def test_a_follower_is_behind_when_both_clocks_say_so(
    wall_days: int, steady_days: int, *, is_behind: bool
) -> None:
    now_s = 1_760_000_000.0
    follower = SimpleNamespace(
        _max_lag_s=60.0,
        _wall_s=lambda: now_s + wall_days * 86_400,
        _steady_s=lambda: now_s + steady_days * 86_400,
    )
    record = SimpleNamespace(timestamp=lambda: (1, int(now_s * 1_000)))
    assert StateFollower._is_behind(cast(Any, follower), [cast(Any, record)]) is is_behind


@_JUMPS
async def test_an_event_of_sds_that_is_missing_is_waited_for_a_minute(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """Neither given up at once, nor waited for a day longer."""
    written_ms = wall_ms()
    record = SimpleNamespace(event=SimpleNamespace(number=3), offset=7, size=10)

    async def pages(*_: object) -> AsyncGenerator[tuple[list[object], int, int], None]:
        yield [SimpleNamespace(key=channel_key("room"), timestamp_ms=written_ms)], 8, 8

    monkeypatch.setattr(replay, "_pages", pages)
    monkeypatch.setattr(replay, "_event", lambda *_: record)
    monkeypatch.setattr(replay, "_size_of", lambda _: 10)
    monkeypatch.setattr(time, "time_ns", lambda: (written_ms + days * _DAY_MS) * 1_000_000)

    async def events(waited_ms: int) -> list[object]:
        def now_ms() -> int:
            return steady_ms() + waited_ms

        readers = cast(Any, None)
        reading = read_events(readers, "room", 0, 0, lambda: 8, expected=2, now_ms=now_ms)
        return [event async for ready, _, _ in reading for event in ready]

    assert await events(0) == []
    assert await events(120_000) == [record]


@pytest.mark.parametrize(("hard", "is_warned"), [(open_files.ENOUGH, False), (1_024, True)])
def test_the_soft_limit_becomes_the_hard_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, hard: int, is_warned: bool
) -> None:
    limits = {resource.RLIMIT_NOFILE: (256, hard)}
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    monkeypatch.setattr(resource, "setrlimit", limits.__setitem__)
    with caplog.at_level(logging.WARNING):
        assert open_files.allow_open_files() == hard
    assert limits == {resource.RLIMIT_NOFILE: (hard, hard)}
    assert ("ulimit -n" in caplog.text) == is_warned


def test_a_limit_that_cannot_be_raised_stays(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise ValueError("not allowed to raise maximum limit")

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "setrlimit", refuse)
    assert open_files.allow_open_files() == 256
    assert "not allowed" in caplog.text
