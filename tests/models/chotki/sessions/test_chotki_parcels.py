"""Large D's: taken in and made in turns, in little memory, refused as small ones are (reference 4.2)."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable

import pytest

from culm_models.chotki.events import SessionRefused
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.parcels import (
    ParcelReader,
    block_vector,
    read_parcel,
    write_end,
    write_parcel,
)
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.replica import Replica
from culm_models.chotki.settings import ChotkiSettings
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import RecordReader, long_record, record
from tests.models.chotki.wire import NAME, NOW, TRACE, Wire, values

PEER = Id(0xB, 3)
READ_BYTES = 65_536


def large(count: int, value: bytes = b"0" + b"x" * 8) -> bytes:
    """A D of so many fields."""
    fields = [(object_key(Id.make(0xB, number, 1), "S"), value) for number in range(1, count + 1)]
    return write_parcel(PEER, Id(0xB, 0), fields)


def met(**settings: object) -> Replica:
    """A replica whose peer has said its handshake."""
    replica = Replica(0xA, settings=ChotkiSettings(**settings))  # type: ignore[arg-type]
    replica.open_session(NAME, NOW)
    replica.receive(NAME, write_handshake(PEER, 7, write_vector({0xB: 1 << 30}), TRACE), NOW)
    return replica


class Nowhere:
    """A spool that only counts."""

    fields_taken = 0
    largest = 0

    def extend(self, fields: list[tuple[bytes, bytes]]) -> None:
        self.fields_taken += len(fields)
        self.largest = max(self.largest, len(fields))

    def fields(self) -> Iterable[tuple[bytes, bytes]]:
        return ()

    def drop(self) -> None:
        pass


def test_a_large_parcel_costs_little_memory_beside_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    spool = Nowhere()
    monkeypatch.setattr(Replica, "open_spool", lambda self: spool)
    parcel, session = large(150_000), met().sessions[NAME]
    tracemalloc.start()
    try:
        for start in range(0, len(parcel), READ_BYTES):
            session.receive(parcel[start : start + READ_BYTES], NOW)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert spool.fields_taken == 150_000 and not session.closed
    # What is read, grown by an eighth, and the record; for a moment both.
    assert peak < 2.3 * len(parcel) + 3_000_000
    assert spool.largest <= 4_096


def test_a_large_parcel_is_taken_in_turns_in_which_the_session_lives_on() -> None:
    replica = met()
    session = replica.sessions[NAME]
    session.take(NOW)
    now_ms, steps = NOW, 0
    for _ in session.receive_in_turns(large(30_000), NOW):
        now_ms += 4_000
        session.tick(now_ms)
        steps += 1
        assert not session.closed, "whose bytes are looked at is neither silent nor deaf"
    assert steps >= 2 * 30_000 // 512
    end = write_end(PEER, [block_vector(Id(0xB, 0), write_vector({0xB: 30_000 << 12}))])
    session.receive(end, now_ms)
    assert len([key for key in replica.store.values() if key[:1] == b"O" and key[8] == 0xB]) == 30_000
    assert session.progress()[1] == (1, 5, len(large(30_000)), 0)


def test_a_session_that_is_closed_in_the_midst_of_a_parcel_takes_no_more_of_it() -> None:
    session = met().sessions[NAME]
    turns = session.receive_in_turns(large(30_000), NOW)
    next(turns)
    session.close(NOW)
    assert list(turns) == [] and session.open_syncs == []


def code_of(packet: bytes) -> str | None:
    output = met().receive(NAME, packet, NOW)
    return next((event.code for _, event in output.events if isinstance(event, SessionRefused)), None)


def test_the_form_of_all_of_a_large_parcel_is_looked_at_before_any_value() -> None:
    bad_value = (object_key(Id.make(0xB, 1, 1), "S"), b"9")
    good = [(object_key(Id.make(0xB, number, 1), "S"), b"0x") for number in range(2, 10_000)]
    body = write_parcel(PEER, Id(0xB, 0), [bad_value, *good])[5:]
    value = record("S", b"0x")
    assert code_of(long_record("D", body)) == "chotki.value"
    for behind in (
        b"f",
        b"f\x09" + b"x" * 9 + value,
        b"i\x01x" + value,
        b"f\x01\x05",
        b"f\x01x!",
        b"f\x01xs\x09",
    ):
        assert code_of(long_record("D", body, behind)) == "chotki.packet", behind
    for behind in (b"1\x05" + value, b"F\x01\0\0\0\x05" + value, b"f\x01\x05S\x02\0\0\x000x"):
        assert len(read_parcel(long_record("D", body[:7], behind)).fields) == 1


def test_what_is_set_aside_is_left_out_of_what_others_get() -> None:
    fields = [(object_key(Id.make(0xB, number, 1), "S"), b"0x") for number in range(1, 9_000)]
    bad = {5, 4_096, 8_998}
    mixed = [(key, b"9" if index in bad else value) for index, (key, value) in enumerate(fields)]
    reader = ParcelReader(write_parcel(PEER, Id(0xB, 0), mixed), set_aside=True)
    assert list(reader.check())
    kept = [field for part in reader.slices() for field in part]
    assert kept == [field for index, field in enumerate(fields) if index not in bad]
    assert [unreadable.id.seq for unreadable in reader.unreadable] == [index + 1 for index in sorted(bad)]
    assert reader.readable() == write_parcel(PEER, Id(0xB, 0), kept)


def test_a_large_parcel_is_made_in_turns_too() -> None:
    store = {object_key(Id.make(0xA, number, 1), "S"): b"0" + b"x" * 300 for number in range(1, 20_000)}
    block = bytes.fromhex("56000000000000000a000000000fffffff56")
    replica = Replica(
        0xA, MemoryStore({**Replica(0xA).store.values(), **store, block: write_vector({0xA: 1 << 27})})
    )
    replica.open_session(NAME, NOW)
    session = replica.sessions[NAME]
    session.take(NOW)
    session.receive(write_handshake(PEER, 7, b"", TRACE), NOW)
    taken, turns = [], 0
    while session.is_making_diff:
        records = session.take(NOW, READ_BYTES)
        turns += not records
        taken += records
        done = session.progress()[0]
        assert done.blocks_done <= done.blocks_total and done.bytes_done <= done.bytes_total
    assert turns > 5 and [packet[:1] for packet in taken].count(b"D") == 2
    sizes = sum(
        len(value) for key, value in replica.store.values().items() if key[:1] == b"O" and key[8] in (0, 0xA)
    )
    done = session.progress()[0]
    assert (done.blocks_done, done.bytes_done) == (done.blocks_total, done.bytes_total) == (2, sizes)


def test_a_sync_in_small_parcels_is_the_same_sync() -> None:
    whole, small = Replica(0xA), Replica(0xA, settings=ChotkiSettings(max_parcel_bytes=1))
    for replica in (whole, small):
        of_class = replica.commit("C", Id(0, 0), b"", NOW).id
        for _ in range(20):
            replica.commit("O", of_class, record("S", b"0x"), NOW)
    b, c = Replica(0xB), Replica(0xB)
    Wire(whole, b, 0).open().run()
    Wire(small, c, 7).open().run()
    assert values(b) == values(c)


def test_a_large_record_is_held_once_when_it_is_whole() -> None:
    reader = RecordReader(1 << 30)
    data = long_record("D", b"x" * (3 << 20))
    for start, end in itertools.pairwise([*range(0, len(data), READ_BYTES), len(data)]):
        for packet in reader.feed(data[start:end]):
            assert reader.pending_bytes == 0 and packet == data
