"""The newest announcement of every peer at every edge (p2panda replication, "Announce").

Each connector reads all of `announcements` and keeps the timestamps; of those that came to itself it keeps
the bytes too, to say them again when an older record of another edge comes behind in the compacted topic.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection

MAX_PEERS = 200_000
MAX_OWN = 2_048
MAX_OWN_BYTES = 32 * 1024 * 1024


class Announcements:
    """Timestamps of peers' newest announcements, and the bytes of those that came to this connector.

    Both are bounded, since whoever makes keys makes peers: the timestamps of peers not heard of for longest
    are forgotten first, and bytes of peers that are not connected before those of peers that are.
    """

    def __init__(self, connected: Collection[bytes]) -> None:
        self._connected = connected
        self._newest: OrderedDict[bytes, int] = OrderedDict()
        self._own: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._own_bytes = 0

    def came(self, remote: bytes, timestamp: int, raw: bytes) -> bool:
        """A peer of ours announced itself; True when that is news to all edges, and then to be told."""
        if timestamp < self._newest.get(remote, 0):
            return False
        news = timestamp > self._newest.get(remote, -1)
        self._forget(remote)
        self._own[remote] = (timestamp, raw)
        self._own_bytes += len(raw)
        self._bound(remote)
        self._note(remote, timestamp)
        return news

    def read(self, remote: bytes, timestamp: int) -> bytes | None:
        """A record of `announcements`; returns what is to be said again when it is older than ours."""
        own = self._own.get(remote)
        self._note(remote, timestamp)
        return own[1] if own is not None and timestamp < own[0] else None

    @property
    def kept(self) -> tuple[int, int]:
        """How many announcements are kept, and their bytes."""
        return len(self._own), self._own_bytes

    def _bound(self, newcomer: bytes) -> None:
        if self._is_bounded():
            return
        gone = [remote for remote in self._own if remote not in self._connected and remote != newcomer]
        for remote in (*gone, *self._own):
            if self._is_bounded():
                return
            self._forget(remote)

    def _is_bounded(self) -> bool:
        return len(self._own) <= MAX_OWN and self._own_bytes <= MAX_OWN_BYTES

    def _forget(self, remote: bytes) -> None:
        former = self._own.pop(remote, None)
        if former is not None:
            self._own_bytes -= len(former[1])

    def _note(self, remote: bytes, timestamp: int) -> None:
        self._newest[remote] = max(timestamp, self._newest.get(remote, 0))
        self._newest.move_to_end(remote)
        if len(self._newest) > MAX_PEERS:
            self._newest.popitem(last=False)
