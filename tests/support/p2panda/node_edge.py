"""An index whose entries are arranged for a p2panda node, and a model of that node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import cast

from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.logs.index.layout import Pair, Range
from culm_connectors.p2panda.aquadoggo.document_order import DocumentOrder
from culm_connectors.p2panda.connections.link import PeerLink
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, peek
from culm_models.p2panda.reconciliation.ranges import EntryRange, in_order, missing
from tests.support.p2panda.histories import History, NodeModel
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA

NAMES = ("ann", "bob", "cyn", "dan", "eve", "fay")


class ConnectionStub:
    """Stands for a connection: the arrangement keeps what it knows of one by its identity."""

    name = "node"


class Reader:
    """Reads a store, at most `entries_at_once` entries in one go."""

    def __init__(self, store: LmdbLogStore, entries_at_once: int = 3) -> None:
        self.store = store
        self.entries_at_once = entries_at_once
        self.longest = 0
        """The longest range that was asked for."""
        self.entries_read = 0

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        answer: list[list[Pair]] = []
        capacity = self.entries_at_once
        self.longest = max(self.longest, *(last - first + 1 for _, _, first, last in ranges))
        for public_key, log_id, first, last in ranges:
            pairs = list(self.store.entries(public_key, log_id, first, last))[:capacity]
            answer.append(pairs)
            capacity -= len(pairs)
            self.entries_read += len(pairs)
            if capacity <= 0:
                break
        return answer


class Edge:
    """An index, and the connection of a node to it."""

    def __init__(self, folder: Path, node: NodeModel, entries_at_once: int = 3) -> None:
        self.store = LmdbLogStore(peek, folder / "index")
        self.node = node
        self.reader = Reader(self.store, entries_at_once)
        self.order = DocumentOrder(self.store, self.reader)
        self.link = ConnectionStub()

    def lacking(self) -> list[EntryRange]:
        """What a session is to send, by the heights of the node."""
        heights = {(key, log_id): height for key, log_id, height in self.node.heights()}
        stored = self.store.log_heights([SCHEMA, OTHER_SCHEMA])
        return in_order(self.store, missing(0, stored, heights))

    async def arranged(self, ranges: Sequence[EntryRange] | None = None) -> list[EntryRange]:
        """The order of one session."""
        lacking = self.lacking() if ranges is None else ranges
        parts = self.order.arrange(cast(PeerLink, self.link), lacking)
        return [part async for arranged in parts for part in arranged]

    def entries(self, ranges: Sequence[EntryRange]) -> Iterator[CheckedOperation]:
        for part in ranges:
            pairs = self.store.entries(part.public_key, part.log_id, part.first_seq_num, part.last_seq_num)
            yield from (check_entry(*pair, verify_signature=False) for pair in pairs)

    async def session(self) -> bool:
        """One session; False where the node ended it before its end."""
        return self.node.take(self.entries(await self.arranged()))


def conversation(history: History, log_id: int, turns: int) -> None:
    """Two authors answer each other in one document."""
    latest = history.write("ann", log_id)
    for turn in range(turns):
        latest = history.write(NAMES[(turn + 1) % 2], log_id, (latest,))
