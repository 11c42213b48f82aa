"""What a driver tells of a connector's peers, passed on: to topics, and to the reading of schemas."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from culm_connectors.p2panda.interest import Interest
from culm_connectors.p2panda.publication import Publication
from culm_connectors.p2panda.sessions import LogKey
from culm_connectors.p2panda.subscription import Subscription
from culm_models.p2panda.events import Announced, Event, Heights, LinkFailed, Rejected


@dataclass(slots=True)
class PeerNews:
    """The observer of a connector's drivers. `subscription` is set before anything is told."""

    publication: Publication
    interest: Interest
    subscription: Subscription = field(init=False)
    wants_deliveries: bool = True

    def on_event(self, event: Event) -> None:
        """Pass on what is worth telling."""
        if isinstance(event, Announced):
            if self.subscription.announced_here(event.remote, event.timestamp, event.raw):
                self.publication.announcement(event)
            if self.interest.want(event.remote, event.schema_ids, time.monotonic()):
                self.subscription.backfill_wanted.set()
        elif isinstance(event, Rejected):
            self.publication.rejected(event)
        elif isinstance(event, Heights):
            self.publication.heights(event)
        elif isinstance(event, LinkFailed):
            self.publication.refused(event)

    def on_gone(self, remote: bytes) -> None:
        """A peer that has left keeps nobody else from having schemas served."""
        if self.interest.gone(remote, time.monotonic()):
            self.subscription.backfill_wanted.set()

    def on_delivered(self, remote: bytes, heights: Mapping[LogKey, int]) -> None:
        """A peer has received entries up to these numbers."""
        self.publication.delivered(remote, heights)
