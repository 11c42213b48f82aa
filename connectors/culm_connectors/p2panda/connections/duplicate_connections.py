"""Choice between two connections of the same peers when each has dialled the other."""

from __future__ import annotations

from culm_connectors.transport.interface import Connection


def supersedes(new: Connection, current: Connection, own_peer_id: bytes) -> bool:
    """Whether a new connection replaces the current one.

    It does unless both peers have dialled and the peer with the lower peer id dialled the current one. So
    both peers make the same choice.
    """
    if current.close_reason is not None or current.dialled == new.dialled:
        return True
    return current.dialled != (own_peer_id < current.peer_id)
