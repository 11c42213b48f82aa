"""The log of a channel: message ids by Lamport timestamp, ties by id (specification "Resolve Conflicts").

Almost all accesses are at the end, so adding messages and reading causal histories there has a cost that does
not depend on the log's length. The oldest entries leave at the front if there are too many; their ids stay
known for long, at 16 bytes each (`OldIds`). The newest messages are also kept as they were on the wire, so
that they can be repeated byte for byte on request (`WireCache`). `Recent` finds the newest ids that the
sender of a received filter is missing.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from culm_models.sds.bloom import LAYOUTS, LayoutName, ReceivedFilter
from culm_models.sds.errors import SnapshotError
from culm_models.sds.wire.codec import encode_entry
from culm_models.sds.wire.messages import HistoryEntry, Profile

_SPARE_ENTRIES: Final = 1_024
"""Entries that left are cut off in bulk: more than this number, and more than an eighth of all."""


@dataclass(slots=True)
class DeliveredMessage:
    """One message of the log, without its content, which the application has."""

    message_id: str
    lamport_timestamp: int
    sender_id: str
    retrieval_hint: bytes | None
    digest: bytes = b""
    """Hash of sender and content (`message_digest`); empty if unknown or already reported as disputed."""

    def named(self) -> HistoryEntry:
        """Return the entry as causal histories name it."""
        return HistoryEntry(self.message_id, self.retrieval_hint, self.sender_id or None)


class MessageLog:
    """The entries in order. `window`: how many entries at the end a causal history names."""

    __slots__ = (
        "_blank",
        "_encoded",
        "_entries",
        "_first",
        "_keys",
        "_left",
        "_max_entries",
        "_profile",
        "_senders",
        "_window",
    )

    def __init__(self, profile: Profile, *, window: int, max_entries: int) -> None:
        self._profile: Profile = profile
        self._window = window
        self._max_entries = max_entries
        # Ids compare by code points, which is also the order of their UTF-8 bytes.
        self._keys: list[tuple[int, str]] = []
        # Parallel to the keys: encoded entries for causal histories, made on demand and kept for the window
        # only; `_blank` is an upper bound of entries in the window that are not encoded yet.
        self._encoded: list[bytes | None] = []
        self._blank = 0
        self._entries: dict[str, DeliveredMessage] = {}
        self._senders: Counter[str] = Counter()
        self._first = 0
        self._left = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._entries

    def __iter__(self) -> Iterator[DeliveredMessage]:
        """Iterate over the entries in order."""
        return (self._entries[message_id] for _, message_id in self.keys())

    @property
    def by_id(self) -> dict[str, DeliveredMessage]:
        """The entries by id, read-only."""
        return self._entries

    def has_sender(self, sender_id: str) -> bool:
        """Whether any entry is of this sender."""
        return sender_id in self._senders

    @property
    def left(self) -> int:
        """The number of entries that left at the front: the position of the first remaining one."""
        return self._left

    def keys(self) -> list[tuple[int, str]]:
        """Return (Lamport timestamp, id) of the entries, in order."""
        return self._keys[self._first :]

    def insert(self, entry: DeliveredMessage) -> int:
        """Insert an entry in order. Returns its position, counted from the channel's first message."""
        key = (entry.lamport_timestamp, entry.message_id)
        keys, encoded = self._keys, self._encoded
        self._entries[entry.message_id] = entry
        self._senders[entry.sender_id] += 1
        self._blank += 1
        if not keys or key > keys[-1]:
            at = len(keys)
            keys.append(key)
            encoded.append(None)
        else:
            at = bisect_left(keys, key, self._first)
            keys.insert(at, key)
            encoded.insert(at, None)
        outside = len(keys) - self._window - 1
        if outside >= 0:
            encoded[outside] = None
        return at - self._first + self._left

    def extend(self, entries: list[DeliveredMessage], left: int) -> None:
        """Fill an empty log with entries in order; `left` others came before them."""
        self._entries = {entry.message_id: entry for entry in entries}
        self._senders = Counter(entry.sender_id for entry in entries)
        self._keys = [(entry.lamport_timestamp, entry.message_id) for entry in entries]
        self._encoded = [None] * len(entries)
        self._blank = len(entries)
        self._left = left

    def trim(self) -> list[str]:
        """Remove the oldest entries above the limit; return their ids."""
        gone: list[str] = []
        while len(self._entries) > self._max_entries:
            message_id = self._keys[self._first][1]
            self._drop(message_id)
            gone.append(message_id)
            self._first += 1
            self._left += 1
        if self._first > max(_SPARE_ENTRIES, len(self._keys) // 8):
            del self._keys[: self._first]
            del self._encoded[: self._first]
            self._first = 0
        return gone

    def cut(self, latest: int) -> list[DeliveredMessage]:
        """Remove the entries with a Lamport timestamp above `latest`; return them, the last one first."""
        gone: list[DeliveredMessage] = []
        while self.last_lamport > latest:
            gone.append(self._drop(self._keys.pop()[1]))
            self._encoded.pop()
        # Entries that re-enter the window lost their encoding when they left it.
        self._blank = len(self._keys)
        return gone

    @property
    def last_lamport(self) -> int:
        """The Lamport timestamp of the last entry, or 0 in an empty log."""
        return self._keys[-1][0] if len(self._keys) > self._first else 0

    def note_disputed(self, message_id: str) -> None:
        """Record that the dispute about this id was reported."""
        self._entries[message_id].digest = b""

    def learn_hint(self, message_id: str, retrieval_hint: bytes) -> bool:
        """Set the hint of an entry without one. Returns whether it was set."""
        entry = self._entries.get(message_id)
        if entry is None or entry.retrieval_hint is not None:
            return False
        entry.retrieval_hint = retrieval_hint
        self._encoded[bisect_left(self._keys, (entry.lamport_timestamp, message_id), self._first)] = None
        self._blank += 1
        return True

    def tail_ids(self) -> list[str]:
        """Return the ids that a causal history sent now names, oldest first."""
        return [message_id for _, message_id in self._keys[self._tail_start() :]]

    def tail(self) -> list[bytes]:
        """Return the newest entries, encoded for a causal history with tag and length."""
        start, at = self._tail_start(), len(self._keys)
        encoded = self._encoded
        while self._blank and at > start:
            at -= 1
            if encoded[at] is None:
                encoded[at] = encode_entry(self._entries[self._keys[at][1]].named(), self._profile)
                self._blank -= 1
        self._blank = 0
        return encoded[start:]  # type: ignore[return-value]  # the window is filled

    def encoded(self, message_id: str) -> bytes | None:
        """Return one message as an entry of a causal history; None if it is not in the log."""
        entry = self._entries.get(message_id)
        return None if entry is None else encode_entry(entry.named(), self._profile)

    def _drop(self, message_id: str) -> DeliveredMessage:
        entry = self._entries.pop(message_id)
        self._senders[entry.sender_id] -= 1
        if not self._senders[entry.sender_id]:
            del self._senders[entry.sender_id]
        return entry

    def _tail_start(self) -> int:
        return max(len(self._keys) - self._window, self._first)


_DIGEST_BYTES: Final = 16


class OldIds:
    """The newest `max_messages` ids that were added, as digests."""

    __slots__ = ("_digests", "_max_messages", "_order")

    def __init__(self, max_messages: int) -> None:
        self._max_messages = max_messages
        self._digests: set[bytes] = set()
        self._order: deque[bytes] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def __contains__(self, message_id: str) -> bool:
        return bool(self._digests) and _digest(message_id) in self._digests

    def add(self, message_id: str) -> None:
        """Add an id; the oldest is forgotten if there are too many."""
        self._take(_digest(message_id))

    def pack(self) -> bytes:
        """Return all digests, oldest first."""
        return b"".join(self._order)

    def extend_packed(self, data: bytes) -> None:
        """Add the digests of `pack`."""
        if len(data) % _DIGEST_BYTES:
            raise SnapshotError(f"{len(data)} bytes are no digests of ids")
        for at in range(0, len(data), _DIGEST_BYTES):
            self._take(data[at : at + _DIGEST_BYTES])

    def _take(self, digest: bytes) -> None:
        if digest in self._digests:
            return
        self._digests.add(digest)
        self._order.append(digest)
        if len(self._order) > self._max_messages:
            self._digests.remove(self._order.popleft())


def _digest(message_id: str) -> bytes:
    return blake2b(message_id.encode(), digest_size=_DIGEST_BYTES).digest()


class WireCache:
    """The newest messages that fit into `max_bytes`; no messages if that is 0."""

    __slots__ = ("_bytes", "_max_bytes", "_wires")

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        # An OrderedDict, since entries leave at the front: iterating over a dict would cross their holes.
        self._wires: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._wires

    def __len__(self) -> int:
        return len(self._wires)

    def put(self, message_id: str, writer_id: str, wire: bytes) -> None:
        """Keep a message with its writer; the oldest messages are dropped for it."""
        if len(wire) > self._max_bytes or message_id in self._wires:
            return
        self._wires[message_id] = (writer_id, wire)
        self._bytes += len(wire)
        while self._bytes > self._max_bytes:
            self._bytes -= len(self._wires.popitem(last=False)[1][1])

    def get(self, message_id: str) -> bytes | None:
        """Return the message's bytes, or None if they are not kept."""
        writer_and_wire = self._wires.get(message_id)
        return None if writer_and_wire is None else writer_and_wire[1]

    def take(self, message_id: str) -> bytes | None:
        """Remove and return a message's bytes; None if they are not kept."""
        writer_and_wire = self._wires.pop(message_id, None)
        if writer_and_wire is None:
            return None
        self._bytes -= len(writer_and_wire[1])
        return writer_and_wire[1]

    def writer(self, message_id: str) -> str | None:
        """Return the writer of a kept message, else None."""
        writer_and_wire = self._wires.get(message_id)
        return None if writer_and_wire is None else writer_and_wire[0]


_MAX_RECENT: Final = 512


class Recent:
    """The newest ids of the log: at most 512, and no more than a filter of the channel always holds."""

    __slots__ = ("_gone", "_held", "_ids", "_kind", "_limit", "_pairs")

    def __init__(self, layout: LayoutName, ids_in_filters: int) -> None:
        """Create an empty list; every filter of the channel holds the newest `ids_in_filters` ids."""
        self._kind = LAYOUTS[layout]
        self._limit = min(_MAX_RECENT, ids_in_filters)
        # Removed ids stay at the front for a while, so that not every new id moves all others.
        self._ids: list[str] = []
        self._gone = 0
        self._held: set[str] = set()
        # The hash pairs of the first ids, as far as they were needed.
        self._pairs = array(self._kind.pair_code)

    @property
    def limit(self) -> int:
        """The largest number of ids."""
        return self._limit

    def add(self, message_id: str) -> None:
        """Add an id that entered the log."""
        self._ids.append(message_id)
        self._held.add(message_id)
        if len(self._ids) - self._gone > self._limit:
            self._held.remove(self._ids[self._gone])
            self._gone += 1
            if self._gone > self._limit:
                del self._ids[: self._gone]
                del self._pairs[: 2 * self._gone]
                self._gone = 0

    def extend(self, message_ids: Iterable[str]) -> None:
        """Add several ids, in their order."""
        for message_id in message_ids:
            self.add(message_id)

    def drop(self, message_id: str) -> None:
        """Remove an id that left the log."""
        if message_id in self._held:
            index = self._ids.index(message_id, self._gone)
            self._held.remove(message_id)
            del self._ids[index]
            del self._pairs[2 * index : 2 * index + 2]

    def ids(self) -> list[str]:
        """Return the ids, oldest first."""
        return self._ids[self._gone :]

    def absent(self, received_filter: ReceivedFilter, *, but: int = 0) -> list[str]:
        """Return the ids that are not in a filter, oldest first; the newest `but` ids are not checked."""
        for message_id in self._ids[len(self._pairs) // 2 :]:
            self._pairs.extend(self._kind.hash_pair(message_id))
        first, end = self._gone, max(len(self._ids) - but, self._gone)
        return [
            self._ids[first + position]
            for position in received_filter.absent(self._pairs[2 * first : 2 * end])
        ]
