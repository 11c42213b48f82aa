"""The state machine of one connection (reference 6): bytes in, events and bytes out."""

from __future__ import annotations

from collections.abc import Iterable

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.events import ExchangeEvent
from culm_models.dag.exchange.settings import ExchangeSettings, SpaceAccess, open_to_all
from culm_models.dag.exchange.store import ExchangeStore
from culm_models.dag.wire.messages import AckStatus


class Exchange:
    """One end of a connection. For one thread; who drives it owes `settle` for nodes and spooled shards.

    `peer` is the other end's proven key: spools belong to it.
    """

    dropped: DagError | None
    """The violation that ended the connection: say no more, close it with the code."""

    def __init__(
        self,
        store: ExchangeStore,
        settings: ExchangeSettings,
        peer: bytes,
        *,
        access: SpaceAccess = open_to_all,
    ) -> None:
        raise NotImplementedError

    def receive(self, data: bytes) -> list[ExchangeEvent]:
        """Take bytes from the other end, cut anywhere. A violation sets `dropped`, and is not raised."""
        raise NotImplementedError

    def next_frame(self) -> bytes:
        """The next frame to send; empty while there is none. Chunks are read from the store as they go."""
        raise NotImplementedError

    def settle(self, space: bytes, results: Iterable[tuple[Cid, AckStatus, str | None]]) -> None:
        """Say what became of reported nodes and shards: the other end is told now, and not before.

        After REFUSED of a spooled shard, it is not asked for again on this connection.
        """
        raise NotImplementedError

    def offer(self, space: bytes) -> None:
        """Tell the other end of heads and shards of a space that are here and that it was not told of."""
        raise NotImplementedError

    def want(self, space: bytes, links: Iterable[Cid]) -> None:
        """Ask for nodes, beyond what the exchange finds missing by itself, as an id's publish."""
        raise NotImplementedError

    def cancel(self, space: bytes, links: Iterable[Cid]) -> None:
        """Ask for these no longer, as for a shard that came from someone else."""
        raise NotImplementedError

    def access_changed(self, space: bytes) -> None:
        """What the access says of a space is not what it said before: offers and wants are made anew."""
        raise NotImplementedError

    @property
    def waiting_bytes(self) -> int:
        """Bytes of answers that wait for `next_frame`: while there are many, read no more."""
        raise NotImplementedError

    def is_done(self, space: bytes) -> bool:
        """Whether both ends have all that they want of a space, of what the other one has."""
        raise NotImplementedError
