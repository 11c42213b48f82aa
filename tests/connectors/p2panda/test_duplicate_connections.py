"""Two peers that dial each other at once keep the same connection of the two."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from culm_connectors.p2panda.connections.duplicate_connections import supersedes

LOW, HIGH = b"\x01" * 32, b"\x02" * 32


def connection(dialled: bool, peer_id: bytes, close_reason: object = None) -> Any:
    return SimpleNamespace(dialled=dialled, peer_id=peer_id, close_reason=close_reason)


@pytest.mark.parametrize(("at_low_first", "at_high_first"), tuple(product([True, False], repeat=2)))
def test_both_keep_the_one_that_the_lower_id_dialled(at_low_first: bool, at_high_first: bool) -> None:
    """The flags say whether an end hears of the connection from the lower id before the other one."""

    def kept(own: bytes, other: bytes, low_first: bool) -> bool:
        """Whether the end with this id keeps the connection that the lower id dialled."""
        from_low = connection(own == LOW, other)
        from_high = connection(own == HIGH, other)
        held, new = (from_low, from_high) if low_first else (from_high, from_low)
        return (new if supersedes(new, held, own) else held) is from_low

    assert kept(LOW, HIGH, at_low_first)
    assert kept(HIGH, LOW, at_high_first)


@pytest.mark.parametrize("dialled", [True, False])
def test_of_two_that_one_end_dialled_the_newer_is_kept(dialled: bool) -> None:
    assert supersedes(connection(dialled, HIGH), connection(dialled, HIGH), LOW)


def test_one_that_has_ended_is_superseded() -> None:
    assert supersedes(connection(False, HIGH), connection(True, HIGH, "ended"), LOW)
