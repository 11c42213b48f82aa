"""What peers do, as far as others are to learn of it: topics, and the choice of schemas to serve."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from culm_connectors.logs.hub import LogPublisher, RefusedEntry
from culm_connectors.p2panda.announcements import AnnouncementTopic
from culm_connectors.p2panda.interest import Interest
from culm_models.bamboo.errors import ForkError
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.events import Announced, Event, Heights, LinkFailed, Rejected, Withheld
from culm_models.p2panda.operations.operation import peek


@dataclass(frozen=True, slots=True)
class PeerEvents:
    """The observer of a connector's drivers."""

    publisher: LogPublisher
    interest: Interest
    announcements: AnnouncementTopic
    wants_deliveries: bool = True

    def on_event(self, event: Event) -> None:
        """Pass on what concerns others."""
        if isinstance(event, Announced):
            self.announcements.announced(event)
            self.interest.want(event.remote, event.schema_ids, time.monotonic())
        elif isinstance(event, Rejected):
            self._rejected(event)
        elif isinstance(event, Withheld):
            self.publisher.withheld(event.code, event.message, event.entry)
        elif isinstance(event, Heights):
            self.publisher.receipts(event.remote, ((row[0], row[1], row[2]) for row in event.log_heights))
        elif isinstance(event, LinkFailed):
            self.publisher.refused(RefusedEntry(event.code, event.message, event.remote))

    def _rejected(self, event: Rejected) -> None:
        refusal = RefusedEntry(event.code, event.message, event.remote, event.entry, event.operation)
        if not event.blameless:
            self.publisher.refused(refusal)
        elif event.code == ForkError.code:
            self.publisher.contradicted(
                refusal, lambda: (peek(event.operation).schema_id, event.session_id or 0)
            )
        else:
            self.publisher.contradicted(refusal)

    def on_gone(self, remote: bytes) -> None:
        """A peer that has left keeps nobody else from having schemas served."""
        self.announcements.left(remote)
        self.interest.gone(remote, time.monotonic())

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A peer has received entries up to these numbers."""
        self.publisher.receipts(remote, ((key, log_id, seq) for (key, log_id), seq in heights.items()))
