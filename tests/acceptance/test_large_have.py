"""Sync ranges that fit no `Have` (replication, "Log Height Mode")."""

from __future__ import annotations

import pytest

from tests.acceptance import material
from tests.acceptance.peers import Link

logs = material.logs


@pytest.mark.parametrize("asks", [0, 1])
def test_a_have_that_fits_no_message_is_never_cut_short(asks: int) -> None:
    """Either the session goes on in mode 1, or by parts: in the end nothing is missing."""
    small = {"max_message_bytes": 3_000}
    link = Link(logs(range(100)), logs(range(60, 160)), settings=small)
    link.connect()
    peer, other = link.sides[asks]
    peer.sync(other.peer_id, 0)
    link.settle()
    for _ in range(6):
        for each, _other in link.sides:
            each.later(10_000)
        link.settle()
    link.assert_equal()
