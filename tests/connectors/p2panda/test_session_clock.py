"""The clock of sessions goes on when somebody sets the wall clock."""

from __future__ import annotations

import time

import pytest

from culm_connectors.p2panda.driver import Driver, clock_ms, session_clock_ms

_DAY_MS = 86_400_000


@pytest.mark.parametrize("days", [-2, 2])
def test_a_wall_clock_that_is_set_neither_ends_nor_keeps_a_session(
    monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    assert (Driver.__init__.__kwdefaults__ or {})["now_ms"] is session_clock_ms
    wall_ms, session_ms = clock_ms(), session_clock_ms()
    monkeypatch.setattr(time, "time_ns", lambda: (wall_ms + days * _DAY_MS) * 1_000_000)
    assert session_ms <= session_clock_ms() < session_ms + _DAY_MS
