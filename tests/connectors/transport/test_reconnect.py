"""How soon a peer dials again: soon after a remote that restarts, ever later after one that fails."""

from __future__ import annotations

import asyncio

import pytest

from culm_connectors.transport import CloseCode, CloseOrigin, CloseReason, ConnectError
from culm_connectors.transport import reconnect as reconnect_module
from culm_connectors.transport.reconnect import Backoff, is_restarting, keep_trying
from tests.support.process.waiting import ended

HOUR_S = 3_600.0


def reason(code: int, origin: CloseOrigin = CloseOrigin.REMOTE, *, application: bool = True) -> CloseReason:
    return CloseReason(code, "", origin, application)


@pytest.mark.parametrize("code", [CloseCode.SHUTTING_DOWN, CloseCode.NOT_READY])
async def test_a_remote_that_restarts_is_dialled_soon_however_often_it_refused(
    code: CloseCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect_module, "RESTART_PAUSE_S", 0.001)
    attempts, stop = 0, asyncio.Event()

    async def attempt() -> bool:
        nonlocal attempts
        attempts += 1
        if attempts == 20:
            stop.set()
        raise ConnectError("refused", reason(code))

    await ended(keep_trying(attempt, Backoff(HOUR_S, HOUR_S), name="remote", until=stop))
    assert attempts == 20


def test_only_the_remote_reports_that_it_restarts() -> None:
    assert is_restarting(reason(CloseCode.SHUTTING_DOWN))
    assert not is_restarting(None)
    assert not is_restarting(reason(CloseCode.IDENTITY))
    assert not is_restarting(reason(CloseCode.SHUTTING_DOWN, CloseOrigin.LOCAL))
    assert not is_restarting(reason(CloseCode.SHUTTING_DOWN, application=False))


async def test_nothing_is_dialled_once_the_process_drains() -> None:
    attempts, stop = 0, asyncio.Event()

    async def attempt() -> bool:
        nonlocal attempts
        attempts += 1
        asyncio.get_running_loop().call_soon(stop.set)  # in the pause after it
        return True

    await ended(keep_trying(attempt, Backoff(HOUR_S, HOUR_S), name="remote", until=stop))
    assert attempts == 1
    await ended(keep_trying(attempt, name="remote", until=stop))
    assert attempts == 1
