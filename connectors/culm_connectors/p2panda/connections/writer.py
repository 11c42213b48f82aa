"""The writer of one connection: it sends messages in order, and reads ranges of logs from the store.

A range that is not in the store yet, but on its way there, is held back, and with it everything that its
session sends after it; everything else passes. So a connector can be asked for entries while it still fills
its index.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from culm_connectors.p2panda.connections.link import PeerLink
from culm_connectors.p2panda.connections.shared import Shared
from culm_connectors.transport.interface import SendStream
from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.reconciliation.ranges import EntryRange
from culm_models.p2panda.sessions.outbox import Queued, QueuedMessage
from culm_models.p2panda.wire.codec import encode_entry_message

_RANGES_AT_ONCE = 256
# Limits of the data that waits behind ranges that are held back; beyond them everything waits in the outbox,
# which has its own limits.
_MAX_BEHIND = 4_096
_MAX_BEHIND_BYTES = 4 * 1024 * 1024


@dataclass(slots=True)
class HeldBack:
    """Data that one session holds back: ranges by log, in any order, and the data that follows them."""

    ranges: dict[LogKey, EntryRange] = field(default_factory=dict)
    behind: deque[Queued] = field(default_factory=deque)


@dataclass(slots=True)
class Deliveries:
    """Heights by stream offset: the remote has them once its transport acknowledges that many bytes.

    One set waits for acknowledgement, the next one gathers meanwhile: bounded by the logs that are touched.
    """

    gathering: dict[LogKey, int] = field(default_factory=dict)
    offset: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, log: LogKey, seq_num: int, offset: int) -> None:
        """The entry `seq_num` of `log` ends at this offset of the stream."""
        self.gathering[log] = max(seq_num, self.gathering.get(log, 0))
        self.offset = offset
        self.changed.set()

    def take(self) -> tuple[int, Mapping[LogKey, int]]:
        """Return the stream offset to wait for, and the heights gathered; starts a new set."""
        self.changed.clear()
        taken, self.gathering = self.gathering, {}
        return self.offset, taken


class StreamWriter:
    """Writes one stream from its start to its end (`run`)."""

    def __init__(self, link: PeerLink, stream: SendStream, shared: Shared) -> None:
        self.deliveries = Deliveries()
        self._link = link
        self._stream = stream
        self._shared = shared
        self._withheld = shared.peer.withheld(link.remote)
        self._buffer = bytearray()
        self._entries: dict[LogKey, int] = {}
        self._held: dict[int, HeldBack] = {}
        self._behind = 0
        self._behind_bytes = 0
        self._ready: set[LogKey] = set()
        self._all_ready = False

    async def run(self) -> None:
        """Write data that waits for the remote, until cancelled. Raises `TransportError`."""
        link, shared = self._link, self._shared
        shared.claims.listeners.add(self._arrived)
        try:
            while True:
                if not self._held:
                    link.quiet.set()
                await link.wake.wait()
                link.wake.clear()
                link.quiet.clear()
                await self._write_arrived()
                while link.is_current and self._has_capacity:
                    outgoing = shared.peer.outgoing(link.remote)
                    if not outgoing:
                        if not outgoing.is_partial:
                            break
                        await asyncio.sleep(0)
                        continue
                    item = outgoing.popleft()
                    if isinstance(item, EntryRange):
                        ranges = [item]
                        while (
                            outgoing
                            and isinstance(outgoing[0], EntryRange)
                            and (len(ranges) < _RANGES_AT_ONCE or shared.arrange is not None)
                        ):
                            following = outgoing.popleft()
                            assert isinstance(following, EntryRange), "just looked at"
                            ranges.append(following)
                        await self._write_in_order(ranges)
                    else:
                        await self._write_message(item)
                await self._flush()
        finally:
            shared.claims.listeners.discard(self._arrived)
            self._count_held(-sum(len(held_back.ranges) for held_back in self._held.values()))

    # Data that is held back.

    @property
    def _has_capacity(self) -> bool:
        return self._behind < _MAX_BEHIND and self._behind_bytes < _MAX_BEHIND_BYTES

    def _count_held(self, change: int) -> None:
        self._shared.metrics.ranges_held_back += change

    def _arrived(self, logs: Collection[LogKey] | None) -> None:
        if not self._held:
            return
        if logs is None:
            self._all_ready = True
        else:
            self._ready.update(
                log for held_back in self._held.values() for log in held_back.ranges.keys() & logs
            )
        if self._ready or self._all_ready:
            self._link.wake.set()

    def _hold(self, item: Queued, session_id: int) -> None:
        held_back = self._held.setdefault(session_id, HeldBack())
        held_back.behind.append(item)
        self._behind += 1
        self._behind_bytes += len(item.data) if isinstance(item, QueuedMessage) else 0

    def _hold_range(self, part: EntryRange) -> None:
        held_back = self._held.setdefault(part.session_id, HeldBack())
        log = (part.public_key, part.log_id)
        if log in held_back.ranges:
            self._hold(part, part.session_id)
            return
        held_back.ranges[log] = part
        self._count_held(1)

    async def _write_arrived(self) -> None:
        """Write the data that was held back, as far as its log has grown."""
        while self._ready or self._all_ready:
            ready, every = self._ready, self._all_ready
            self._ready, self._all_ready = set(), False
            for session_id, held_back in tuple(self._held.items()):
                logs = tuple(held_back.ranges) if every else tuple(held_back.ranges.keys() & ready)
                for start in range(0, len(logs), _RANGES_AT_ONCE):
                    parts = [held_back.ranges.pop(log) for log in logs[start : start + _RANGES_AT_ONCE]]
                    self._count_held(-len(parts))
                    await self._write_ranges(parts, ahead=True)
                if not held_back.ranges:
                    del self._held[session_id]
                    await self._release(held_back.behind)

    async def _release(self, behind: deque[Queued]) -> None:
        while behind:
            item = behind.popleft()
            self._behind -= 1
            self._behind_bytes -= len(item.data) if isinstance(item, QueuedMessage) else 0
            if isinstance(item, EntryRange):
                await self._write_ranges([item])
            else:
                await self._write_message(item)

    # Data that is sent.

    async def _write_message(self, message: QueuedMessage) -> None:
        if message.follows is not None and message.follows in self._held:
            self._hold(message, message.follows)
            return
        if message.entry is not None:
            if self._withheld is not None and message.entry[0] in self._withheld:
                # It was queued before the range in front of it was read.
                return
            self._note_entry(*message.entry)
        self._buffer += message.data
        if len(self._buffer) >= self._shared.settings.write_bytes:
            await self._flush()

    def _note_entry(self, log: LogKey, seq_num: int) -> None:
        """Count a live entry that is sent, and expect its delivery."""
        self._link.entries_out += 1
        self._shared.metrics.entries_out += 1
        if self._shared.observer.wants_deliveries:
            # Entries received from two peers are sent twice, the second time perhaps only up to a lower one.
            self._entries[log] = max(seq_num, self._entries.get(log, 0))

    async def _flush(self) -> None:
        if self._buffer:
            data = bytes(self._buffer)
            self._buffer.clear()
            await self._stream.write(data)
            self._shared.metrics.bytes_out += len(data)
        # Not sooner: a delivery is waited for at an offset that has been written.
        for log, seq_num in self._entries.items():
            self.deliveries.note(log, seq_num, self._stream.written)
        self._entries.clear()

    async def _write_in_order(self, ranges: Sequence[EntryRange]) -> None:
        """Write ranges in their order, or in the order in which the remote can take them."""
        if self._shared.arrange is None:
            await self._write_ranges(ranges)
            return
        async for arranged in self._shared.arrange(self._link, ranges):
            for start in range(0, len(arranged), _RANGES_AT_ONCE):
                await self._write_ranges(arranged[start : start + _RANGES_AT_ONCE])

    async def _write_ranges(self, ranges: Sequence[EntryRange], *, ahead: bool = False) -> None:
        """Read and write parts of logs, chunk by chunk; a log that was cut back meanwhile ends early.

        `ahead`: they were held back, and are sent before the data that waited behind them.
        """
        await self._flush()
        link, shared = self._link, self._shared
        waiting: deque[EntryRange] = deque()
        for part in ranges:
            if shared.claims.awaits((part.public_key, part.log_id), part.first_seq_num):
                self._hold_range(part)
            elif not ahead and part.session_id in self._held and self._held[part.session_id].behind:
                self._hold(part, part.session_id)
            else:
                waiting.append(part)
        while waiting:
            # Asked before reading: an entry that arrives meanwhile must not count as one that never arrives.
            expected = set(filter(self._is_expected, waiting)) if shared.claims.anything else ()
            parts_read = await shared.reader.read_ranges(
                [(part.public_key, part.log_id, part.first_seq_num, part.last_seq_num) for part in waiting],
                shared.settings.write_bytes,
            )
            sent: list[tuple[LogKey, int]] = []
            for pairs in parts_read:
                part = waiting.popleft()
                sendable = pairs if self._withheld is None else self._withheld.sendable(part, pairs)
                for entry, operation in sendable:
                    self._buffer += encode_entry_message(part.session_id, entry, operation)
                log = (part.public_key, part.log_id)
                last = part.first_seq_num + len(sendable) - 1
                rest = EntryRange(part.session_id, *log, last + 1, part.last_seq_num)
                if sendable:
                    sent.append((log, last))
                    link.entries_out += len(sendable)
                    shared.metrics.entries_out += len(sendable)
                if pairs:
                    if len(sendable) == len(pairs) and last < part.last_seq_num:
                        waiting.appendleft(rest)
                elif part in expected:
                    self._hold_range(rest)
                    if not shared.claims.awaits(log, rest.first_seq_num):
                        self._arrived((log,))
            await self._flush()
            if shared.observer.wants_deliveries:
                for log, seq_num in sent:
                    self.deliveries.note(log, seq_num, self._stream.written)

    def _is_expected(self, part: EntryRange) -> bool:
        return self._shared.claims.awaits((part.public_key, part.log_id), part.last_seq_num)
