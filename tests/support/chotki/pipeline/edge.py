"""An edge: the real protocol on topics in memory, begun again whenever it was killed or has failed."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

from culm_connectors.chotki import protocol, sources
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.edge.access import AccessWatch
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.interface import Buffer
from culm_connectors.transport.memory import MemoryChannel
from culm_models.chotki.compat import Compat
from culm_models.chotki.tlv import probe
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import peek
from culm_topics.chotki.records import SourceRecord
from culm_topics.chotki.sources import SOURCES_TOPIC, SourceTable
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import Origin
from culm_topics.readers.batch import TopicMessage
from tests.support.chotki.pipeline.faults import Writes
from tests.support.chotki.pipeline.topics import PREFIX, MemoryProducer, MemoryTopics

_PAUSE_S = 0.3
_READ_BYTES = 200


class Killed(Exception):
    """The writer of the local store is dead."""


class RecordChannel:
    """A channel to a peer that takes record by record, and gives few bytes at a time: each is a point."""

    def __init__(self, channel: MemoryChannel, producer: MemoryProducer, writes: Writes, who: str) -> None:
        self._channel = channel
        self._producer = producer
        self._writes = writes
        self._who = who

    async def read(self, max_bytes: int = _READ_BYTES) -> bytes:
        data = await self._channel.read(_READ_BYTES)
        await self._producer.turn()
        if self._writes.next(self._who, "from peer") is not None:
            await self._producer.die()
        return data

    async def write(self, data: Buffer) -> None:
        rest = bytes(data)
        while rest:
            _, head, body = probe(rest)
            size = head + body
            await self._producer.turn()
            if self._writes.next(self._who, f"to peer {rest[:1].decode()}") is not None:
                await self._producer.die()
            await self._channel.write(rest[:size])
            rest = rest[size:]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._channel, name)


class MemoryEdge:
    """One edge with its folder; `live` is its whole life."""

    def __init__(
        self,
        folder: Path,
        topics: MemoryTopics,
        writes: Writes,
        source: int,
        compat: Compat = Compat.DEFAULT,
    ) -> None:
        self.name = folder.name
        self.folder = folder
        self.source = source
        self._compat = compat
        self.protocol: protocol.ChotkiProtocol | None = None
        self.runs = 0
        self.failures: list[BaseException] = []
        self._topics = topics
        self._writes = writes
        self._producer: MemoryProducer | None = None
        self._ready = asyncio.Event()
        self._serving: dict[asyncio.Task[None], MemoryChannel] = {}
        self._seed = self.name.encode().ljust(32, b".")

    @property
    def is_ready(self) -> bool:
        """Whether it serves."""
        return self._ready.is_set()

    def values(self) -> dict[bytes, bytes]:
        """Its local store, fields and vectors."""
        assert self.protocol is not None
        with contextlib.closing(_Released(self.protocol.driver.shared.store)) as read:
            return read.values()

    def accept(self, channel: MemoryChannel) -> None:
        """A replica has connected."""
        assert self.protocol is not None and self._producer is not None
        to_peer = RecordChannel(channel, self._producer, self._writes, self.name)
        task = asyncio.create_task(self.protocol.driver.serve(cast(Any, to_peer)))
        self._serving[task] = channel
        task.add_done_callback(lambda done: self._serving.pop(done, None))

    async def live(self) -> None:
        """Run for ever, again after each end."""
        while True:
            self.runs += 1
            await self._run()
            if self.name in self._writes.lost_disks:
                self._writes.lost_disks.remove(self.name)
                shutil.rmtree(self.folder)
            await asyncio.sleep(_PAUSE_S)

    async def _run(self) -> None:
        producer = self._producer = MemoryProducer(self._topics, self._writes, self.name)
        opening = protocol.open_chotki(self._context(producer))
        assert opening is not None
        async with opening as opened:
            assert isinstance(opened, protocol.ChotkiProtocol)
            self.protocol = opened
            running = asyncio.create_task(opened.run(self._open_doors))
            dying = asyncio.create_task(producer.killed.wait())
            try:
                await asyncio.wait({running, dying}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                producer.killed.set()
                self._ready.clear()
                serving = dict(self._serving)
                for task, channel in serving.items():
                    channel.abort()
                    task.cancel()
                running.cancel()
                dying.cancel()
                ended = await asyncio.gather(running, dying, *serving, return_exceptions=True)
            self.failures += [outcome for outcome in ended[:1] if isinstance(outcome, Exception)]

    async def _open_doors(self) -> None:
        self._ready.set()

    def take_write_of_store(self) -> None:
        """The local store is about to change. Raises `Killed`."""
        assert self._producer is not None
        if self._producer.killed.is_set():
            raise Killed
        if self._writes.next(self.name, "store") is not None:
            self._producer.killed.set()
            raise Killed

    def _context(self, producer: MemoryProducer) -> EdgeContext:
        chotki = ChotkiEdgeSettings(
            listen=("tcp://127.0.0.1:1",),
            name=self.name,
            source=f"{self.source:x}",
            compat=self._compat.value,
        )
        return EdgeContext(
            settings=ConnectorSettings(directory=self.folder, chotki=chotki),
            kafka=KafkaSettings(bootstrap="nowhere:1", prefix=PREFIX),
            key_pair=KeyPair(self._seed),
            connector_id=(self.name.encode() + b" run %d" % self.runs).ljust(32, b"."),
            administration=cast(Any, None),
            producer=cast(Any, producer),
            access=AccessWatch(None, (), 1.0),
            read_payload_facts=peek,
            progress=lambda *_: None,
            starting=lambda _: None,
            stack=contextlib.AsyncExitStack(),
        )


class _Released:
    """A snapshot of a store, to be read whole."""

    def __init__(self, store: ChotkiStore) -> None:
        self._snapshot = store.snapshot()

    def values(self) -> dict[bytes, bytes]:
        fields = {key: value for key, value, _ in self._snapshot.fields(b"")}
        return fields | dict(self._snapshot.vectors())

    def close(self) -> None:
        self._snapshot.release()


class _SourcesFollower:
    """As `SourceFollower`."""

    def __init__(self, topics: MemoryTopics) -> None:
        self.table = SourceTable()
        self._topics = topics
        self._read = 0
        self.poll()

    def poll(self) -> Mapping[int, SourceRecord]:
        records = self._topics.log(SOURCES_TOPIC, 0)
        for offset, (key, value) in enumerate(records[self._read :], self._read):
            self.table.take(TopicMessage(key, value or b"", 0, offset, 0))
        self._read = len(records)
        return self.table.holders

    def close(self) -> None:
        pass


@contextlib.contextmanager
def without_kafka(topics: MemoryTopics, edges: Sequence[MemoryEdge]) -> Iterator[None]:
    """While it lasts, edges find these topics where they ask Kafka."""

    async def forever(*_: object) -> None:
        await asyncio.Event().wait()

    def list_topics(_: object, specs: Sequence[object]) -> list[SimpleNamespace]:
        return [SimpleNamespace(partitions=topics.partitions) for _ in specs]

    def watched(work: Callable[..., None]) -> Callable[..., None]:
        def write(store: ChotkiStore, *args: Any) -> None:
            next(edge for edge in edges if edge.folder in store.folder.parents).take_write_of_store()
            work(store, *args)

        return write

    stand_ins: dict[str, Any] = {
        "ask_origin": lambda *_: Origin("cluster", {}),
        "watch_origin": forever,
        "TopicReaders": lambda *_: topics,
        "admin": SimpleNamespace(list_topics=list_topics),
    }
    with (
        patch.multiple(protocol, **stand_ins),
        patch.multiple(
            sources,
            read_sources=lambda _: _SourcesFollower(topics).table,
            SourceFollower=lambda _: _SourcesFollower(topics),
        ),
        patch.object(ChotkiStore, "apply", watched(ChotkiStore.apply)),
        patch.object(ChotkiStore, "build", watched(ChotkiStore.build)),
    ):
        yield
