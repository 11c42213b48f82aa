"""Ids of this replica's source from a peer: edits before a crash, or by a second user (reference 4.2)."""

from __future__ import annotations

from collections.abc import Callable

from culm_models.chotki import events
from culm_models.chotki.errors import OwnIdMalformed
from culm_models.chotki.ids import Id
from culm_models.chotki.sessions.host import Host


class OwnIds:
    """Raises the host's counter to ids of its source that return, and reports them."""

    __slots__ = ("_host", "_report")

    def __init__(self, host: Host, report: Callable[[events.SessionEvent], None]) -> None:
        self._host = host
        self._report = report

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
