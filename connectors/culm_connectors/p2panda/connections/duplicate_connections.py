"""Which of two connections between the same peers is kept, when each has dialled the other."""

from __future__ import annotations

from culm_connectors.transport.interface import Connection


def supersedes(new: Connection, held: Connection, own_peer_id: bytes) -> bool:
    """Whether a new connection takes the place of the one that is held.

    It does unless both peers have dialled and the held one is that which the lower peer id dialled: so both
    choose alike.
    """
    if held.close_reason is not None or held.dialled == new.dialled:
        return True
    return held.dialled != (own_peer_id < held.peer_id)
