"""Records of peers on their way into Kafka: in order, bounded, and each key no more than its share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from culm_connectors.edge.intake import Bounds, MemoryOutbox
from culm_connectors.sds.backbone import Backbone, OutgoingRecord
from culm_connectors.sds.link import MemberLink
from culm_connectors.sds.metrics import SdsMetrics
from culm_connectors.sds.settings import SdsEdgeSettings

_Entry = tuple[OutgoingRecord, "Callable[[], None] | None"]


class Staging:
    """`run` must be running; an error of the backbone ends it."""

    def __init__(self, backbone: Backbone, settings: SdsEdgeSettings, metrics: SdsMetrics) -> None:
        self._backbone = backbone
        self._outbox = MemoryOutbox[_Entry](
            self._store,
            metrics,
            Bounds(settings.max_staged_items, settings.max_staged_bytes),
            batch=Bounds(settings.store_batch, settings.max_staged_bytes),
            share=Bounds(settings.max_staged_items_per_peer, settings.max_staged_bytes_per_peer),
        )
        self.run = self._outbox.run
        self.drained = self._outbox.drained

    def add(
        self, outgoing: OutgoingRecord, link: MemberLink | None = None, done: Callable[[], None] | None = None
    ) -> None:
        """Have a record kept; `done` is called when it is durable."""
        share = None if link is None else link.budget.staged
        self._outbox.add([((outgoing, done), outgoing.size_bytes)], share)

    async def room(self, link: MemberLink) -> None:
        """Wait while too much waits, of all connections or of this one's key."""
        await self._outbox.wait_for_capacity(link.budget.staged)

    async def _store(self, batch: Sequence[_Entry]) -> None:
        await self._backbone.put([outgoing for outgoing, _ in batch])
        for _, done in batch:
            if done is not None:
                done()
