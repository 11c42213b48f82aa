"""Bare logs are not for p2panda's index: its followers pass them over, and nobody is told of a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.logs.follow_entries import EntriesFollower
from culm_connectors.logs.follow_logs import LogsFollower
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_topics.readers.batch import Batch
from tests.support.bamboo.bare_logs import BareLogEntry, make_bare_log, texts
from tests.support.p2panda.logs import author

ALICE = author("alice")


class Message:
    """What the followers ask of a record."""

    def __init__(self, key: bytes, value: bytes, offset: int) -> None:
        self._key, self._value, self._offset = key, value, offset

    def key(self) -> bytes:
        return self._key

    def value(self) -> bytes:
        return self._value

    def topic(self) -> str:
        return "culm.any"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self._offset


class Edge:
    """Stands for everything around a follower: what it took, and whatever was told of a fault."""

    def __init__(self) -> None:
        self.taken: list[object] = []
        self.offsets: list[object] = []
        self.refused: list[object] = []
        self.gaps = SimpleNamespace(found=lambda gaps, whole: None)
        self.lost_entries = SimpleNamespace(on_logs=lambda heights: None)
        self.hub = self.publisher = self.pool = self
        self.index = SimpleNamespace(store=self)
        self.warm_start = SimpleNamespace(claims=SimpleNamespace(anything=False))
        self.topics = SimpleNamespace(whole_logs=None)
        self.connector_id = b"this edge's"
        self.missing: frozenset[str] = frozenset()
        self.changed = asyncio.Event()

    def subscribe(self, subscriber: object) -> None:
        return None

    def refused_record(self, *fault: object) -> None:
        self.refused.append(fault)

    async def submit(self, pairs: Sequence[object], *, verify_signature: bool) -> list[object]:
        raise AssertionError("nothing of a bare log is checked as an operation")

    async def take(self, entries: Sequence[object], offsets: object, *, truth: bool = False) -> Any:
        self.taken += entries
        self.offsets.append(offsets)
        return SimpleNamespace(stored=[], truncated=[], gaps=[])

    def height(self, *_: object) -> int:
        return 0

    def log_info(self, *_: object) -> None:
        return None

    def keeps(self, schema_id: str) -> bool:
        """Even where somebody has announced an empty schema."""
        return True


class Reader:
    """A topic of one batch."""

    def __init__(self, messages: list[Message]) -> None:
        self.batches = [Batch(cast("Any", tuple(messages)), {("culm.any", 0): len(messages)})]

    async def get(self) -> Batch:
        if not self.batches:
            raise EOFError
        return self.batches.pop()


@pytest.fixture(params=[YAMF, YASMF], ids=lambda flavour: flavour.name)
def log(request: pytest.FixtureRequest) -> list[BareLogEntry]:
    flavour: HashFlavour = request.param
    return make_bare_log(ALICE, 0, texts(3), flavour=flavour)


def messages(records: list[tuple[bytes | None, bytes | None]]) -> Reader:
    return Reader([Message(key or b"", value or b"", offset) for offset, (key, value) in enumerate(records)])


async def test_the_follower_of_entries_passes_them_over(log: list[BareLogEntry]) -> None:
    edge = Edge()
    follower = EntriesFollower(cast("Any", edge), edge.keeps, max_payload_bytes=1024)
    with pytest.raises(EOFError):
        await follower.follow(cast("Any", messages([entry.arrival(0)[:2] for entry in log])))
    assert (edge.taken, edge.refused, edge.offsets) == ([], [], [{("culm.any", 0): 3}])


async def test_the_follower_of_logs_passes_them_over(log: list[BareLogEntry]) -> None:
    edge = Edge()

    async def announce() -> None:
        return None

    async def settle(positions: object) -> None:
        return None

    edge.warm_start.settle = settle
    follower = LogsFollower(cast("Any", edge), cast("Any", edge), announce)
    reader = messages([(entry.key, entry.log_record().encode()) for entry in log])
    cast("Any", reader).positions = {}
    with pytest.raises(EOFError):
        await follower.follow(cast("Any", reader))
    assert (edge.taken, edge.refused, edge.offsets) == ([], [], [{("culm.any", 0): 3}])
