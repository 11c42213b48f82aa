"""A folder of DAGs, safe to be killed anywhere: what was committed is there, what was torn is dropped.

Nodes, UCANs, receipts and indexes are in SQLite; a shard is the file `shards/<CID>.car`, visible once it was
verified whole; a spool is a file below `spools/`, of one peer and one shard.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from culm_connectors.dag.store.outcomes import BlockOutcome, BlockPlace, Lack, PublishedDag
from culm_connectors.dag.store.settings import DagFolderSettings
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.ranges import Range
from culm_models.dag.exchange.store import NotReserved, Reserved


class DagFolder:
    """Nodes and shards of any number of spaces; implements `ExchangeStore`. For one thread at a time.

    What is changed is in one transaction until `commit`. Several processes may have one folder open.
    """

    def __init__(
        self,
        folder: Path,
        settings: DagFolderSettings | None = None,
        *,
        create: bool = False,
        clock_s: Callable[[], float] = time.time,
    ) -> None:
        """Open a folder; with `create`, make one where there is none. Error: `DagFolderError`.

        Torn and expired spools are dropped.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the folder; what was not committed is lost."""
        raise NotImplementedError

    def commit(self) -> None:
        """Make what was put in survive a crash of this process."""
        raise NotImplementedError

    def transaction(self) -> sqlite3.Connection:
        """The database, in a transaction until `commit`: for whoever keeps tables of its own beside these."""
        raise NotImplementedError

    # Nodes and UCANs.

    def put_blocks(self, space: bytes, blocks: Sequence[bytes], *, received_at: int) -> list[BlockOutcome]:
        """Judge and keep nodes and UCANs, in the order given, any order; one outcome each.

        `received_at`: seconds since 1970 of the receipt, which stands in the record of a publish (R24); one
        that is here is judged again at a further receipt. Refusals for good are remembered (R25).
        """
        raise NotImplementedError

    def refused_with(self, cid: Cid) -> str | None:
        """The code with which a node or UCAN was refused for good."""
        raise NotImplementedError

    def read_node(self, cid: Cid) -> bytes | None:
        """The block of a node or UCAN of any space."""
        raise NotImplementedError

    def spaces(self) -> list[bytes]:
        """Every space of which there is a node or a shard, ascending."""
        raise NotImplementedError

    def nodes(self, space: bytes) -> Iterator[tuple[Cid, bytes]]:
        """All nodes and UCANs of a space, ascending by text."""
        raise NotImplementedError

    def receipts(self, cid: Cid) -> list[int]:
        """When a publish was received, ascending."""
        raise NotImplementedError

    def node(self, space: bytes, cid: Cid) -> bytes | None:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def has_node(self, space: bytes, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def dag_heads(self, space: bytes) -> list[Cid]:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def publish_heads(self, space: bytes) -> list[Cid]:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def tip(self, space: bytes) -> Cid | None:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def missing_nodes(self, space: bytes, most: int) -> list[Cid]:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def lack(self, heads: Iterable[Cid]) -> Lack:
        """What is not here of the states of some nodes; of a publish, of its chain and its origin."""
        raise NotImplementedError

    def published(self, id: bytes) -> PublishedDag:
        """Order, states and heads of an id."""
        raise NotImplementedError

    # Shards.

    def add_shard(self, space: bytes, cid: Cid, data: bytes | memoryview) -> bool:
        """Verify and keep a shard that is in memory; False when it was here. Raises `DagError`."""
        raise NotImplementedError

    def shards(self, space: bytes) -> Iterator[tuple[Cid, int]]:
        """See `ExchangeStore`; ascending."""
        raise NotImplementedError

    def has_shard(self, cid: Cid) -> bool:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def shard_size(self, space: bytes, cid: Cid) -> int | None:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def shard_path(self, cid: Cid) -> Path | None:
        """The file of a shard that is here whole; it never changes."""
        raise NotImplementedError

    def read_shard(self, cid: Cid, offset: int, length: int) -> bytes:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def block_place(self, cid: Cid) -> BlockPlace | None:
        """Where a block lies, in the shard that came first among those that hold it."""
        raise NotImplementedError

    def block(self, cid: Cid) -> bytes | None:
        """A block of any shard that is here, of an identity CID, or of a node."""
        raise NotImplementedError

    def drop_shard(self, cid: Cid) -> bool:
        """Forget a shard as if it had never come (R33); whether it was here."""
        raise NotImplementedError

    def set_blocked(self, key: bytes, reason: str | None) -> None:
        """Refuse a shard (the bytes of its CID) or a space from now on; with None, no longer (R33)."""
        raise NotImplementedError

    def blocked(self, key: bytes) -> str | None:
        """Why a shard or a space is refused."""
        raise NotImplementedError

    # Spools (R34).

    def reserve(self, peer: bytes, space: bytes, shard: Cid, size: int) -> Reserved | NotReserved:
        """See `ExchangeStore`. Over a quota: LATER with the code `dag.spool_full`."""
        raise NotImplementedError

    def spool(self, peer: bytes, shard: Cid, offset: int, data: bytes) -> None:
        """See `ExchangeStore`."""
        raise NotImplementedError

    def spooled(self, peer: bytes, shard: Cid) -> tuple[int, tuple[Range, ...]] | None:
        """Announced size and ranges of a spool."""
        raise NotImplementedError

    def accept_spool(self, peer: bytes, shard: Cid) -> None:
        """Verify a whole spool and make it a shard; other peers' spools of it are dropped.

        Raises `DagError`, and then the spool is gone. To verify in another thread: `store.verification`.
        """
        raise NotImplementedError

    def drop_spool(self, peer: bytes, shard: Cid) -> None:
        """Forget a spool."""
        raise NotImplementedError

    def drop_expired_spools(self) -> int:
        """Forget spools whose last byte came too long ago; how many."""
        raise NotImplementedError
