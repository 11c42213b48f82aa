"""Log lines that others can cause are written within a rate, and what was left out is told."""

from __future__ import annotations

import logging

import pytest

from culm_connectors.paced_log import PacedLog


def test_lines_over_the_rate_are_left_out_and_told_with_the_next(caplog: pytest.LogCaptureFixture) -> None:
    now_s = 100.0
    paced = PacedLog(logging.getLogger("paced"), per_second=1, burst=2, clock=lambda: now_s)
    with caplog.at_level(logging.INFO):
        for number in range(500):
            paced.info("connected", "connection %d", number)
        now_s += 1
        paced.info("connected", "connection %d", 500)
        paced.info("connected", "connection %d", 501)
    assert caplog.messages == [
        "connection 0",
        "connection 1",
        "connection 500 (498 lines like this one were left out before it)",
    ]


def test_kinds_do_not_take_each_others_lines(caplog: pytest.LogCaptureFixture) -> None:
    paced = PacedLog(logging.getLogger("paced"), burst=1, clock=lambda: 1.0)
    with caplog.at_level(logging.INFO):
        paced.info("failed", "one failed")
        paced.info("failed", "another failed")
        paced.warning("connected", "one connected")
    assert caplog.messages == ["one failed", "one connected"]
