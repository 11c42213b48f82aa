"""Two replicas and the bytes between them, delivered in any pieces."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from culm_models.chotki.events import SessionEvent
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.handshake import MODE_MAX
from culm_models.chotki.replica import Output, Replica
from culm_models.chotki.sessions.session import Session
from culm_models.chotki.tlv import RecordReader, record

NAME = "wire"
NOW = 1_000_000
TRACE = bytes(range(10))
CLASS_BODY = record("T", record("t", b"\x02"), b"S\x00Name") + record("T", record("t", b"\x04"), b"N\x00Sum")


def values(replica: Replica) -> dict[bytes, bytes]:
    """The store of a replica without the fields that only append."""
    return {key: value for key, value in replica.store.values().items() if key[17] != ord("L")}


def text(letter: str, value: str, *, rev: int = 0) -> bytes:
    """A record of a register with a stamp that names no source."""
    stamp = b"" if not rev else bytes([rev * 2])
    return record(letter, record("t", stamp), value.encode())


def counter(src: int, value: int) -> bytes:
    """A record of an N with one contribution."""
    return record("N", record("T", record("t", bytes([value, src]))))


def edit(number: int, value: bytes) -> bytes:
    """The body of an E of one field."""
    return record("f", bytes([number])) + value


def new_object(replica: Replica, count: int = 1) -> list[Id]:
    """A class, and so many objects of it with a name and a counter."""
    of_class = replica.commit("C", Id(0, 0), CLASS_BODY, NOW).id
    body = text("S", "one") + counter(replica.src, 1)
    return [replica.commit("O", of_class, body, NOW).id for _ in range(count)]


def letters(records: Iterable[bytes]) -> str:
    """The letters of records, in order."""
    return "".join(chr(packet[0]).upper() for packet in records)


def split(stream: bytes) -> list[bytes]:
    """The records of a stream."""
    return list(RecordReader(1 << 30).feed(stream))


def kinds(events: Iterable[SessionEvent]) -> list[str]:
    """The kinds of events without those of states."""
    return [event.kind for event in events if event.kind != "state"]


@dataclass
class Wire:
    """`a` and `b` with one session each under one name. `pieces`: how many bytes arrive at a time, 0: all."""

    a: Replica
    b: Replica
    pieces: int = 0
    sent: dict[int, bytearray] = field(default_factory=dict)
    events: dict[int, list[SessionEvent]] = field(default_factory=dict)
    closed: set[int] = field(default_factory=set)

    def open(self, now: int = NOW, *, mode_a: int = MODE_MAX, mode_b: int = MODE_MAX, **options: Any) -> Wire:
        """Connect; nothing is delivered yet."""
        self._way: dict[int, bytearray] = {id(self.a): bytearray(), id(self.b): bytearray()}
        self.sent = {id(self.a): bytearray(), id(self.b): bytearray()}
        self.events = {id(self.a): [], id(self.b): []}
        self.closed = set()
        for replica, mode in ((self.a, mode_a), (self.b, mode_b)):
            self.took(replica, replica.open_session(NAME, now, mode=mode, **options))
        return self

    def took(self, replica: Replica, output: Output) -> None:
        """Put on the wire what a replica has for it."""
        data = b"".join(output.of(NAME))
        self.sent[id(replica)] += data
        self._way[id(self.b if replica is self.a else self.a)] += data
        self.events[id(replica)] += output.events_of(NAME)
        if NAME in output.closed:
            self.closed.add(id(replica))

    def run(self, now: int = NOW) -> Wire:
        """Deliver until nothing is under way."""
        while any(self._way.values()):
            for replica in (self.a, self.b):
                way = self._way[id(replica)]
                size = self.pieces or len(way)
                data = bytes(way[:size])
                del way[:size]
                if data:
                    self.took(replica, replica.receive(NAME, data, now))
        return self

    def tick(self, now: int) -> Wire:
        """Let both do what is due, then deliver."""
        for replica in (self.a, self.b):
            self.took(replica, replica.tick(now))
        return self.run(now)

    def records(self, replica: Replica) -> list[bytes]:
        """What a replica sent."""
        return split(bytes(self.sent[id(replica)]))

    def letters(self, replica: Replica) -> str:
        """The letters of what a replica sent."""
        return letters(self.records(replica))

    def kinds(self, replica: Replica) -> list[str]:
        """The kinds of a replica's events, without states."""
        return kinds(self.events[id(replica)])

    def session(self, replica: Replica) -> Session:
        """A replica's session."""
        return replica.sessions[NAME]
