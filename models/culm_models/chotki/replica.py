"""A complete peer in memory: store, counter, sessions, and forwarding as a hub (reference 2.4, 4.2).

Every call returns the records to write to each session, and the events. An edge, whose replica spans several
processes, has its own `Host` and shares only `Session`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from culm_models.chotki.compat import Compat
from culm_models.chotki.errors import FieldsMissing, LetterUnknown, OwnIdMalformed
from culm_models.chotki.events import SessionEvent
from culm_models.chotki.ids import (
    BLOCK_BITS,
    GLOBAL_VECTOR_KEY,
    OFFSET_BITS,
    SEQUENCE_MAX,
    Id,
    vector_key,
)
from culm_models.chotki.log0 import fresh_store
from culm_models.chotki.packets.handshake import MODE_MAX, TRACE_SIZE
from culm_models.chotki.packets.live import LivePacket, read_live, write_live
from culm_models.chotki.packets.packet import LIVE_LETTERS, parse
from culm_models.chotki.rdx import merge, parse_vector
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import SEEN_TYPES, MemoryStore, StoreSnapshot
from culm_models.chotki.sync.open_syncs import MemorySpool, OpenSync
from culm_models.chotki.tlv import record


@dataclass(frozen=True, slots=True)
class Output:
    """The results of one step: records for sessions, events of sessions, and sessions that it closed."""

    sends: dict[str, list[bytes]] = field(default_factory=dict)
    events: list[tuple[str, SessionEvent]] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)

    def of(self, session: str) -> list[bytes]:
        """Return the records for one session."""
        return self.sends.get(session, [])

    def events_of(self, session: str) -> list[SessionEvent]:
        """Return the events of one session."""
        return [event for name, event in self.events if name == session]


class Committed(NamedTuple):
    """A local change: its id, its packet and the output that it caused."""

    id: Id
    packet: bytes
    output: Output


class Replica:
    """One replica with its store in memory.

    `src` identifies it among all replicas, so no two may share one. Without a store it starts with the
    initial content of every replica and its `name`.
    """

    def __init__(
        self,
        src: int,
        store: MemoryStore | None = None,
        *,
        name: str = "",
        settings: ChotkiSettings | None = None,
        compat: Compat = Compat.DEFAULT,
        seed: int = 0,
    ) -> None:
        self.compat = compat
        self.settings = settings if settings is not None else ChotkiSettings.for_compat(compat)
        self.store = MemoryStore(fresh_store(src, name)) if store is None else store
        self.sessions: dict[str, Session] = {}
        self._src = src
        self._counter = self.vector().get(src, 0)
        self._rng = random.Random(f"{seed} {src}")

    @property
    def src(self) -> int:
        """The source of this replica."""
        return self._src

    def is_ours(self, src: int) -> bool:
        """Whether a source is this replica's own."""
        return src == self._src

    @property
    def counter(self) -> int:
        """The progress of the last id that this replica issued."""
        return self._counter

    @property
    def last_id(self) -> Id:
        """The last id that this replica issued."""
        return Id(self._src, self._counter)

    def vector(self) -> dict[int, int]:
        """Return the global vector: for every source the progress of the last change held."""
        return parse_vector(self.store.get(GLOBAL_VECTOR_KEY) or b"")

    # Sessions.

    def open_session(
        self,
        session: str,
        now_ms: int,
        *,
        mode: int = MODE_MAX,
        trace: bytes | None = None,
        settings: ChotkiSettings | None = None,
    ) -> Output:
        """Open a session under a name that is free or whose session is over. The output has its H."""
        former = self.sessions.get(session)
        assert former is None or former.is_over, "a session that is not over keeps its name"
        self.sessions[session] = Session(
            self,
            settings if settings is not None else self.settings,
            compat=self.compat,
            mode=mode,
            trace=trace if trace is not None else self._rng.randbytes(TRACE_SIZE),
            now_ms=now_ms,
        )
        return self._output(now_ms)

    def receive(self, session: str, data: bytes, now_ms: int) -> Output:
        """Take the data of one read of a session's transport, split anywhere."""
        was_closed = self.sessions[session].closed
        self.sessions[session].receive(data, now_ms)
        return self._output(now_ms, () if was_closed else (session,))

    def tick(self, now_ms: int) -> Output:
        """Do everything that is due in any session."""
        open_ones = [name for name, session in self.sessions.items() if not session.closed]
        for name in open_ones:
            self.sessions[name].tick(now_ms)
        return self._output(now_ms, open_ones)

    def close_session(self, session: str, now_ms: int) -> Output:
        """End a session from this side."""
        was_closed = self.sessions[session].closed
        self.sessions[session].close(now_ms)
        return self._output(now_ms, () if was_closed else (session,))

    def lose_session(self, session: str, now_ms: int) -> Output:
        """Handle the end of a session's transport."""
        self.sessions[session].lost()
        return self._output(now_ms)

    def next_due_ms(self) -> int | None:
        """Return the time at which `tick` is due, or None if nothing is planned."""
        due_ms = (session.next_due_ms() for session in self.sessions.values())
        return min((each for each in due_ms if each is not None), default=None)

    def _output(self, now_ms: int, concerned: Iterator[str] | tuple[str, ...] | list[str] = ()) -> Output:
        output = Output()
        for name, session in self.sessions.items():
            if records := session.take(now_ms):
                output.sends[name] = records
            output.events.extend((name, event) for event in session.take_events())
        output.closed.extend(name for name in concerned if self.sessions[name].closed)
        return output

    # Local changes.

    def commit(self, letter: str, ref: Id, body: bytes, now_ms: int) -> Committed:
        """Make a change of this replica: C, O, E or Y, with ``body`` behind R.

        Raises the errors with which a receiver would refuse it.
        """
        if letter not in LIVE_LETTERS:
            raise LetterUnknown(f"no change has the letter {letter!r}")
        seq = (self._counter >> OFFSET_BITS) + 1
        if seq > SEQUENCE_MAX:
            raise OwnIdMalformed("the source has no further ids")
        id = Id(self._src, seq << OFFSET_BITS)
        packet = write_live(letter, id, ref, body)
        parsed = parse(packet)
        if letter in "OY" and not parsed.inner:
            raise FieldsMissing("an object needs at least one field")
        live = read_live(parsed, packet, compat=self.compat)
        self._counter = id.pro
        self.apply(live)
        self.forward(None, packet)
        return Committed(id, packet, self._output(now_ms))

    # The methods of `Host`.

    def raise_counter(self, pro: int) -> None:
        """Raise the counter to an id of this replica's source that returned."""
        self._counter = max(self._counter, pro)

    def snapshot(self) -> StoreSnapshot:
        """Return the store as it is now."""
        return self.store.snapshot()

    def open_spool(self) -> MemorySpool:
        """Return a place for the fields of an open sync."""
        return MemorySpool()

    def apply(self, live: LivePacket) -> None:
        """Apply a live packet."""
        self.store.merge(writes_of_live(live), checked=self.compat is Compat.DEFAULT)

    def commit_sync(self, sync: OpenSync, vectors: list[tuple[Id, bytes]]) -> Id | None:
        """Apply a whole sync. Returns this replica's entry if it was beyond the counter, now raised to it."""
        self.store.merge(_writes_of_sync(sync, vectors), checked=self.compat is Compat.DEFAULT)
        own = parse_vector(sync.vector).get(self._src, 0)
        if self.compat is Compat.GO or own <= self._counter:
            return None
        self._counter = own
        return Id(self._src, own)

    def forward(self, session: object, record: bytes) -> None:
        """Send a record of one session to all others."""
        for other in self.sessions.values():
            if other is not session:
                other.send_live(record)


def writes_of_live(live: LivePacket) -> Iterator[tuple[bytes, bytes, bytes | None]]:
    """Yield the writes of a live packet: its fields, the vector of its block, the global vector."""
    entry = record("V", live.entry.zip())
    for key, value in live.writes:
        yield key, value, entry
    yield vector_key(live.block), entry, None
    if live.counts:
        yield GLOBAL_VECTOR_KEY, entry, None


def _writes_of_sync(
    sync: OpenSync, vectors: list[tuple[Id, bytes]]
) -> Iterator[tuple[bytes, bytes, bytes | None]]:
    """Yield fields, vectors of blocks, the global vector. A field gets its block's vector as seen vector."""
    seen: dict[tuple[bytes, int], bytes] = {}
    for block, vector in vectors:
        block_key = (block.src.to_bytes(8, "big"), block.pro >> BLOCK_BITS)
        seen[block_key] = merge("V", [seen[block_key], vector] if block_key in seen else [vector])
    for key, value in sync.spool.fields():
        if key[17] in SEEN_TYPES:
            yield key, value, seen.get((key[1:9], int.from_bytes(key[9:17], "big") >> BLOCK_BITS))
        else:
            yield key, value, None
    for block, vector in vectors:
        yield vector_key(block), vector, None
    yield GLOBAL_VECTOR_KEY, sync.vector, None
