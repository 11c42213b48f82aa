"""Looks up single messages of the store, and the newest ones of a channel, by the index in a local file.

The index is opened when the first channel is joined and kept up to date from then on by a thread of its own;
Messages that are not in it yet are found by this deployment's own hints, or requested from peers. A full disk
delays the index; channels are served nevertheless, since the index contains no data of peers.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from culm_connectors.rate_limit import LimitedLog
from culm_models.sds.wire.messages import HistoryEntry
from culm_topics.errors import TopicsError
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import TopicPartitions
from culm_topics.sds.index import SdsIndex
from culm_topics.sds.index_file import IndexFileFailed
from culm_topics.sds.records import MAX_FETCH_ENTRIES
from culm_topics.sds.store import SdsStore, StoredMessage

limited = LimitedLog(logging.getLogger(__name__))

Answer = TypeVar("Answer")

_POLL_S = 0.2
_RETRY_S = 5.0
_SAMPLE_S = 30.0
# A message is in the store after it has been heard: what was stored so long ago was heard for sure.
_SETTLED_S = 60.0


class Lookups:
    """`run` must be running; `begin` starts its work."""

    def __init__(self, kafka: KafkaSettings, path: Path) -> None:
        self._kafka = kafka
        self._path = path
        self._begun = asyncio.Event()
        self._stopping = threading.Event()
        # The store's client is for one thread at a time; the index's file likewise.
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="sds-lookup")
        self._index: SdsIndex | None = None
        self._store: SdsStore | None = None
        self._store_index: SdsIndex | None = None
        self._asking = threading.Lock()
        self._ends: deque[tuple[float, Mapping[int, int]]] = deque()
        self.failure: IndexFileFailed | None = None
        """The reason why the index cannot be written now."""

    def begin(self) -> None:
        """Start work, because requests will follow."""
        self._begun.set()

    async def run(self) -> None:
        """Keep the index up to date, forever; without the topic or the broker, try again later."""
        await self._begun.wait()
        while not self._stopping.is_set():
            try:
                await asyncio.to_thread(self._follow)
            except TopicsError as error:
                limited.warning("the index of the store is not kept up to date: %s", error)
                if isinstance(error, IndexFileFailed):
                    self.failure = error
                await asyncio.sleep(_RETRY_S)

    async def close(self) -> None:
        """Stop, and close the clients."""
        await asyncio.to_thread(self._threads.shutdown)
        self._stopping.set()
        if self._store is not None:
            await asyncio.to_thread(self._store.close)

    def _follow(self) -> None:
        with (
            SdsIndex(self._kafka, self._path) as index,
            TopicPartitions(self._kafka, "sds.messages") as store,
        ):
            partitions = range(store.count())
            self._index, self.failure = index, None
            try:
                sampled_s = -_SAMPLE_S
                while not self._stopping.is_set():
                    self._take(index)
                    now_s = time.monotonic()
                    if now_s - sampled_s >= _SAMPLE_S:
                        sampled_s = now_s
                        self._note_ends(
                            now_s, {partition: store.range_of(partition)[1] for partition in partitions}
                        )
            finally:
                with self._asking:
                    self._index = None

    def _take(self, index: SdsIndex) -> None:
        try:
            if index.poll(_POLL_S):
                self.failure = None
        except IndexFileFailed as error:
            limited.warning("the index of the store is not kept up to date: %s", error)
            self.failure = error
            self._stopping.wait(_RETRY_S)

    def _note_ends(self, now_s: float, ends: Mapping[int, int]) -> None:
        self._ends.append((now_s, ends))
        while len(self._ends) > 1 and self._ends[1][0] <= now_s - _SETTLED_S:
            self._ends.popleft()

    def settled(self, partition: int) -> int | None:
        """Return an offset of the store before which everything was stored some time ago; None if unknown."""
        if not self._ends or self._ends[0][0] > time.monotonic() - _SETTLED_S:
            return None
        return self._ends[0][1].get(partition)

    async def find(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Sequence[StoredMessage]:
        """Return those messages that the store holds; an empty sequence while the broker does not answer."""
        return await self._ask(lambda: self._find(channel_id, entries), ())

    async def heads(self, channel_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[int, str]]]:
        """Return by channel the (Lamport timestamp, id) of its newest messages that are in the index."""
        return await self._ask(lambda: self._heads(channel_ids), {})

    async def _ask(self, question: Callable[[], Answer], nothing: Answer) -> Answer:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._answer, question)
        except TopicsError as error:
            limited.warning("the store cannot be asked: %s", error)
            return nothing

    def _answer(self, question: Callable[[], Answer]) -> Answer:
        # The index is not closed under somebody who asks it.
        with self._asking:
            return question()

    def _find(self, channel_id: str, entries: Sequence[HistoryEntry]) -> list[StoredMessage]:
        if self._store is None or self._store_index is not self._index:
            if self._store is not None:
                self._store.close()
            self._store_index = self._index
            self._store = SdsStore(self._kafka, self._index)
        messages: list[StoredMessage] = []
        for start in range(0, len(entries), MAX_FETCH_ENTRIES):
            part = entries[start : start + MAX_FETCH_ENTRIES]
            messages += self._store.retrieve(channel_id, part).found.values()
        return messages

    def _heads(self, channel_ids: Sequence[str]) -> dict[str, list[tuple[int, str]]]:
        index = self._index
        return {} if index is None else {channel_id: index.head(channel_id) for channel_id in channel_ids}
