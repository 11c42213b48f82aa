"""Progress of one exchange with another end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.events import DagAcknowledged
from culm_models.dag.wire.messages import AckStatus


@dataclass(slots=True)
class SyncProgress:
    """Progress of one connection, updated as it goes on."""

    nodes: int = 0
    """Nodes and UCANs that came and are kept."""
    shards: int = 0
    """Shards that came, were verified, and are kept."""
    received_bytes: int = 0
    """Bytes of shards that were received."""
    sent_bytes: int = 0
    """Bytes of shards that were sent."""
    wanted_shards: int = 0
    wanted_bytes: int = 0
    """Sizes of requested shards that are not complete, in bytes; parts that came are not subtracted."""
    acknowledged: int = 0
    """Items that the other end has acknowledged as durable."""
    refused: list[tuple[Cid, str]] = field(default_factory=list)
    """Items that either end refused, with the code; the first `listed`."""
    later: list[tuple[Cid, str]] = field(default_factory=list)
    """Items that either end has no capacity for now, with the code; the first `listed`."""
    not_there: int = 0
    """Items that were requested and that the other end does not have."""
    listed: int = 1_000
    """Maximum length of `refused` and of `later`."""

    def count(self, event: DagAcknowledged) -> None:
        """Count an acknowledgement from the other end."""
        self.acknowledged += event.status is AckStatus.DURABLE
        self.not_there += event.status is AckStatus.NOT_HERE
        self.list_results([(event.link, event.status, event.code)])

    def list_results(self, results: Sequence[tuple[Cid, AckStatus, str | None]]) -> int:
        """List items that were refused or put off; returns how many are new and kept."""
        for cid, status, code in results:
            listed = {AckStatus.REFUSED: self.refused, AckStatus.LATER: self.later}.get(status)
            if listed is not None and len(listed) < self.listed:
                listed.append((cid, code or ""))
        return sum(status is AckStatus.DURABLE for _, status, _ in results)


OnProgress = Callable[[SyncProgress], None]
"""Called whenever data came or went."""
