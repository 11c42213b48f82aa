"""Ids of this replica's source from a peer: edits before a crash, or by a second user (reference 4.2)."""

from __future__ import annotations

from collections.abc import Callable

from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import OwnIdMalformed, SourceCollision
from culm_models.chotki.ids import Id
from culm_models.chotki.sessions.host import Host


class OwnIds:
    """Raises the host's counter to ids of its source that return, and reports them."""

    __slots__ = ("_host", "_report")

    def __init__(self, host: Host, report: Callable[[events.SessionEvent], None]) -> None:
        self._host = host
        self._report = report

    def check_peer(self, t: Id, compat: Compat) -> None:
        """Check the T of a peer's handshake. `Compat.GO` accepts this replica's own source and takes T.

        Raises `SourceCollision` if the peer is of this replica's source.
        """
        if t.src != self._host.src:
            return
        if compat is Compat.DEFAULT:
            raise SourceCollision(f"the peer is the source {self._host.src:x}, which is this replica's")
        if self.is_beyond(t):
            self.take(t)

    def is_beyond(self, id: Id) -> bool:
        """Whether an id is of this replica's source and beyond the counter.

        Raises `OwnIdMalformed` if the source issues no such ids.
        """
        if id.src != self._host.src or id.pro <= self._host.counter:
            return False
        if id.off:
            raise OwnIdMalformed(f"{id} is of this replica's source, which gave no such id")
        return True

    def take(self, id: Id) -> None:
        """Raise the counter to an id and report it."""
        self._host.raise_counter(id.pro)
        self._report(events.OwnSource(id))
