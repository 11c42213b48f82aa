"""How far one exchange with another end is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.events import DagAcknowledged
from culm_models.dag.wire.messages import AckStatus


@dataclass(slots=True)
class SyncProgress:
    """Where one connection stands; changed as it goes on."""

    nodes: int = 0
    """Nodes and UCANs that came and are kept."""
    shards: int = 0
    """Shards that came, were verified, and are kept."""
    received_bytes: int = 0
    """Of shards."""
    sent_bytes: int = 0
    """Of shards."""
    wanted_shards: int = 0
    wanted_bytes: int = 0
    """Of shards that are wanted and have not come; bytes of those in parts count wholly."""
    acknowledged: int = 0
    """What the other end says is durable there."""
    refused: list[tuple[Cid, str]] = field(default_factory=list)
    """What either end refused, with the code; the first `listed`."""
    later: list[tuple[Cid, str]] = field(default_factory=list)
    """What either end has no room for now; the first `listed`."""
    not_there: int = 0
    """What was asked for and the other end has not."""
    listed: int = 1_000
    """How many of `refused` and of `later` are listed."""

    def count(self, event: DagAcknowledged) -> None:
        """The other end has said what became of something."""
        self.acknowledged += event.status is AckStatus.DURABLE
        self.not_there += event.status is AckStatus.NOT_HERE
        self.list_results([(event.link, event.status, event.code)])

    def list_results(self, results: Sequence[tuple[Cid, AckStatus, str | None]]) -> int:
        """List what was refused or put off; returns how many are new and kept."""
        for cid, status, code in results:
            listed = {AckStatus.REFUSED: self.refused, AckStatus.LATER: self.later}.get(status)
            if listed is not None and len(listed) < self.listed:
                listed.append((cid, code or ""))
        return sum(status is AckStatus.DURABLE for _, status, _ in results)


OnProgress = Callable[[SyncProgress], None]
"""Is told whenever something came or went."""
