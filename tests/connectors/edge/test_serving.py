"""A connection that its remote ends is no defect, and a defect costs one connection."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.edge.protocol_metrics import ProtocolMetrics
from culm_connectors.edge.serving import Link, LinkEnded, Links
from culm_connectors.transport import CloseCode, CloseOrigin, CloseReason, Connection, ConnectionClosedError

GONE = CloseReason(CloseCode.NORMAL, "", CloseOrigin.REMOTE, application=True)


@pytest.mark.parametrize(
    ("error", "code", "logged"),
    [
        (ConnectionClosedError(GONE), CloseCode.NORMAL, []),
        (ValueError("a defect"), CloseCode.INTERNAL, [logging.ERROR, logging.WARNING]),
    ],
)
async def test_what_ends_the_speaking_is_told_and_logged(
    error: Exception, code: CloseCode, logged: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    told: list[int] = []

    async def close(code: int, reason: str) -> None:
        told.append(code)

    async def speak(_: Link) -> LinkEnded:
        raise error

    reason = GONE if code is CloseCode.NORMAL else None
    connection: Any = SimpleNamespace(
        peer_id=bytes(32), remote_address=("127.0.0.1", 1), close_reason=reason, close=close
    )
    metrics, gone = ProtocolMetrics(), list[Link]()
    links = Links[Link](metrics, id, gone.append)
    link = Link(cast(Connection, connection))
    links.begin(link)
    await links.serve(link, speak)
    assert (told, gone, links.open, metrics.connections) == ([code], [link], {}, 0)
    assert [record.levelno for record in caplog.records if record.levelno > logging.INFO] == logged
    assert metrics.closed == ({} if reason else {"internal": 1})
