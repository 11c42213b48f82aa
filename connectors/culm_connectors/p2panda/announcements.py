"""The newest announcement of every peer at every edge (p2panda replication, "Announce").

Each connector reads all of `announcements` and keeps the timestamps; of those that it received itself it
keeps the bytes too, to produce them again when an older record of another edge follows in the compacted
topic.

Every new key is a new peer, and the topic keeps a record of each. The record is removed when no connector has
seen the peer for `FORGOTTEN_MS`, or when there are more than `MAX_PEERS` and this one was not seen for
longest.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Collection
from typing import NamedTuple

from culm_connectors.clock import steady_ms
from culm_connectors.kafka import ProducerRecord, TopicReader
from culm_connectors.kafka.backlog import Backlog, BatchSender
from culm_models.errors import CulmError
from culm_models.p2panda.events import Announced
from culm_models.p2panda.wire.codec import decode
from culm_models.p2panda.wire.messages import Announce
from culm_topics.readers.batch import Batch, source_of

MAX_PEERS = 200_000
MAX_OWN = 2_048
MAX_OWN_BYTES = 32 * 1024 * 1024
DAY_MS = 24 * 60 * 60 * 1000
REPEATED_MS = DAY_MS
"""Interval at which the announcement of a peer that stays connected is produced again."""
FORGOTTEN_MS = 30 * DAY_MS
_REMOVED_AT_ONCE = 5_000
_INTERVAL_S = 60.0
_MAX_WAITING = 10_000
_MAX_WAITING_BYTES = 8 * 1024 * 1024

RefuseRecord = Callable[[CulmError, tuple[str, int, int], bytes | None, bytes | None], None]


class _Newest(NamedTuple):
    """The timestamp of a peer's newest announcement, and when it was last produced."""

    timestamp: int
    at_ms: int


class Announcements:
    """Timestamps of peers' newest announcements, and the bytes of those that this connector received.

    Both are bounded, since every new key is a new peer: the timestamps of peers not seen for longest are
    forgotten first, and bytes of peers that are not connected before those of peers that are.
    """

    def __init__(self, connected: Collection[bytes]) -> None:
        self._connected = connected
        # In the order in which they were produced, and the peers beyond its limit.
        self._newest: OrderedDict[bytes, _Newest] = OrderedDict()
        self._surplus: deque[bytes] = deque(maxlen=MAX_PEERS)
        self._own: OrderedDict[bytes, tuple[int, bytes]] = OrderedDict()
        self._own_bytes = 0

    def received(self, remote: bytes, timestamp: int, raw: bytes, now_ms: int) -> bool:
        """Note an announcement of our peer; returns True if it is new to all edges and must be produced."""
        newest = self._newest.get(remote)
        if newest is not None and timestamp < newest.timestamp:
            return False
        news = newest is None or timestamp > newest.timestamp
        self._forget(remote)
        self._own[remote] = (timestamp, raw)
        self._own_bytes += len(raw)
        self._bound(remote)
        self._note(remote, timestamp, now_ms if news else 0)
        return news

    def read(self, remote: bytes, timestamp: int, at_ms: int) -> bytes | None:
        """Note a record of `announcements`; returns ours if it is newer and must be produced again."""
        own = self._own.get(remote)
        self._note(remote, timestamp, at_ms)
        return own[1] if own is not None and timestamp < own[0] else None

    def removed(self, remote: bytes) -> bytes | None:
        """Note a removed record; returns the announcement to produce again if its peer is connected here."""
        own = self._own.get(remote)
        if own is not None and remote in self._connected:
            return own[1]
        self._newest.pop(remote, None)
        self._forget(remote)
        return None

    def due(self, now_ms: int) -> list[tuple[bytes, bytes | None]]:
        """Return what to produce now: peers with their announcements as bytes, or None to remove them."""
        due_records: list[tuple[bytes, bytes | None]] = []
        for remote in self._connected:
            own, newest = self._own.get(remote), self._newest.get(remote)
            if own is not None and (newest is None or newest.at_ms <= now_ms - REPEATED_MS):
                self._note(remote, own[0], now_ms)
                due_records.append((remote, own[1]))
        for _ in range(_REMOVED_AT_ONCE):
            gone = self._next_gone(now_ms)
            if gone is None:
                break
            self._forget(gone)
            due_records.append((gone, None))
        return due_records

    def _next_gone(self, now_ms: int) -> bytes | None:
        while self._surplus:
            remote = self._surplus.popleft()
            if remote not in self._newest and remote not in self._connected:
                return remote
        while self._newest:
            remote, (timestamp, at_ms) = next(iter(self._newest.items()))
            if at_ms > now_ms - FORGOTTEN_MS:
                return None
            if remote not in self._connected:
                del self._newest[remote]
                return remote
            self._note(remote, timestamp, now_ms)
        return None

    @property
    def kept(self) -> tuple[int, int]:
        """Number of announcements kept, and their size in bytes."""
        return len(self._own), self._own_bytes

    def _bound(self, newcomer: bytes) -> None:
        if self._is_bounded():
            return
        gone = [remote for remote in self._own if remote not in self._connected and remote != newcomer]
        for remote in (*gone, *self._own):
            if self._is_bounded():
                return
            self._forget(remote)

    def _is_bounded(self) -> bool:
        return len(self._own) <= MAX_OWN and self._own_bytes <= MAX_OWN_BYTES

    def _forget(self, remote: bytes) -> None:
        former = self._own.pop(remote, None)
        if former is not None:
            self._own_bytes -= len(former[1])

    def _note(self, remote: bytes, timestamp: int, at_ms: int) -> None:
        former = self._newest.get(remote)
        if former is not None:
            timestamp, at_ms = max(timestamp, former.timestamp), max(at_ms, former.at_ms)
        self._newest[remote] = _Newest(timestamp, at_ms)
        self._newest.move_to_end(remote)
        if len(self._newest) > MAX_PEERS:
            self._surplus.append(self._newest.popitem(last=False)[0])


class AnnouncementTopic:
    """Reads and writes `announcements`; `refuse` receives malformed records."""

    def __init__(
        self,
        sender: BatchSender,
        topic: str,
        refuse: RefuseRecord,
        now_ms: Callable[[], int] = steady_ms,
    ) -> None:
        self._sender = sender
        self._refuse = refuse
        self._now_ms = now_ms
        self._backlog = Backlog(_MAX_WAITING, _MAX_WAITING_BYTES)
        self._connected: set[bytes] = set()
        self._announcements = Announcements(self._connected)
        sender.add(topic, self._backlog.take)

    # Peers of this connector.

    def announced(self, event: Announced) -> None:
        """Note an announcement of our peer, and produce it if it is new to all edges."""
        self._connected.add(event.remote)
        if self._announcements.received(event.remote, event.timestamp, event.raw, self._now_ms()):
            self._produce(event.remote, event.raw)

    def left(self, remote: bytes) -> None:
        """Note that a peer of this connector has left."""
        self._connected.discard(remote)

    async def keep(self) -> None:
        """Renew announcements of connected peers and remove those of long absent peers, until cancelled."""
        while True:
            for remote, raw in self._announcements.due(self._now_ms()):
                self._produce(remote, raw)
            await asyncio.sleep(_INTERVAL_S)

    def _produce(self, remote: bytes, raw: bytes | None) -> None:
        # Only the newest of a peer waits.
        if not self._backlog.add(ProducerRecord(key=remote, value=raw), remote):
            self._sender.dropped["announcements"] += 1

    # All edges.

    async def read_to_end(self, reader: TopicReader) -> None:
        """Read the records that the topic held when the reader started."""
        async for batch in reader.read_to_end():
            self._take(batch)

    async def follow(self, reader: TopicReader) -> None:
        """Follow the topic until cancelled."""
        while True:
            self._take(await reader.get())

    def _take(self, batch: Batch) -> None:
        """Keep the newest timestamp of every peer; produce ours again if an older record follows it."""
        for message in batch.messages:
            remote, value = message.key(), message.value()
            if remote is None:
                continue
            if value is None:
                ours = self._announcements.removed(remote)
            else:
                try:
                    announce = decode(value)
                except CulmError as error:
                    self._refuse(error, source_of(message), value, None)
                    continue
                if not isinstance(announce, Announce):
                    continue
                ours = self._announcements.read(remote, announce.timestamp, message.timestamp()[1])
            if ours is not None:
                self._produce(remote, ours)
