"""A process may open as many files as the system allows it, and says so if these are few."""

from __future__ import annotations

import logging
import resource

import pytest

from culm_connectors import open_files


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
