"""What an edge keeps on disk for a while, and syncs that the deployment cannot store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki import storage_limits
from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.errors import Warned
from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket, TailPosition
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.spool import (
    CHUNK_BYTES,
    Chunk,
    DiskSpool,
    IntakeQueue,
    SpoolFolder,
    WaitingPacket,
    WaitingSync,
)
from culm_connectors.chotki.storage_limits import OperandSizes, StorageLimits
from culm_connectors.chotki.warnings.packet_ids import PacketIds
from culm_connectors.transport.memory import memory_pair
from culm_models.chotki import events
from culm_models.chotki.errors import RecordTooLarge, SpoolFull
from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.packets.parcels import block_vector, write_end, write_parcel
from culm_models.chotki.rdx import parse_text, stamp, write_vector
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import EpochRecord, FieldRecord, PacketRecord, RecordOrigin
from culm_topics.readers.batch import Batch
from tests.support.chotki.edge import ORIGIN, Acknowledging, edge_shared
from tests.support.process.waiting import while_working

FIELD_KEY = bytes(18)
EDGE = b"edge".ljust(32, b".")
SIZE = 10_000
MIB = 1 << 20


class Merged:
    """An edge without an epoch."""

    vector: dict[int, int] = {}  # noqa: RUF012
    packets: dict[int, int] = {}  # noqa: RUF012


def files(folder: Path) -> int:
    return len(list(folder.glob("chunk-*")))


# Chunks.


@pytest.mark.parametrize("on_disk", [False, True])
@pytest.mark.parametrize("most_bytes", [1, 20, 1_000])
def test_a_chunk_gives_back_its_entries_in_any_bites(tmp_path: Path, on_disk: bool, most_bytes: int) -> None:
    chunk = Chunk(SpoolFolder(tmp_path, MIB))
    entries = [bytes([number]) * number for number in range(30)]
    for entry in entries:
        chunk.append(entry)
    if on_disk:
        chunk.spill()
    entries_read, at = [], 0
    while at < chunk.size:
        chunk_entries, at = chunk.read(at, 7, most_bytes)
        assert 0 < len(chunk_entries) <= 7
        entries_read += chunk_entries
    assert entries_read == entries
    assert files(tmp_path) == on_disk
    chunk.drop()
    assert files(tmp_path) == 0


def test_a_room_is_empty_at_the_start_and_gives_no_more_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "chunk-7").write_bytes(b"of a former run")
    folder = SpoolFolder(tmp_path, 100)
    assert files(tmp_path) == 0
    folder.take(60)
    with pytest.raises(SpoolFull):
        folder.write(bytes(41))
    assert folder.used_bytes == 60 and files(tmp_path) == 0
    folder.give(60)
    folder.write(bytes(100))
    assert folder.used_bytes == 100


def test_a_disk_that_takes_nothing_is_a_full_one(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path / "folder", 100)
    (tmp_path / "folder").rmdir()
    with pytest.raises(SpoolFull, match="chunk-0"):
        folder.write(b"x")
    assert folder.used_bytes == 0


def test_the_fields_of_a_sync_take_room_until_it_is_closed(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, 1_000)
    spool = DiskSpool(folder)
    fields = [(FIELD_KEY, bytes([number]) * 50) for number in range(10)]
    spool.extend(fields)
    assert folder.used_bytes == 720
    with pytest.raises(SpoolFull):
        DiskSpool(folder).extend(fields)
    spool.keep()
    spool.drop()
    assert list(spool.fields()) == fields
    spool.close()
    spool.close()
    assert folder.used_bytes == 0


# What Kafka is too slow for.


def packet(number: int) -> WaitingPacket:
    return WaitingPacket(0xB, None if number % 3 == 0 else number, number.to_bytes(4, "big") * (SIZE // 4))


def test_packets_and_syncs_come_out_of_memory_and_disk_as_they_went_in(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, 64 * MIB)
    queue = IntakeQueue(folder, 2 * MIB)
    expected: list[object] = []
    for number in range(1_000):
        expected.append(packet(number))
        queue.put_packet(packet(number), number)
        if number in (3, 500, 501, 999):
            sync = WaitingSync(Id(0xB, number), DiskSpool(folder), [], b"", b"")
            queue.put_sync(sync, number)
            expected.append(sync)
    assert files(tmp_path) >= 6 and queue.bytes == 1_000 * SIZE + 4
    outputs: list[object] = []
    while (taken := queue.take()) is not None:
        outputs += [taken] if isinstance(taken, WaitingSync) else taken
        first = outputs[-1] if isinstance(taken, WaitingSync) else taken[0]
        assert queue.age_ms(2_000) == 2_000 - number_of(first)
        queue.done(5_000)
    assert outputs == expected
    assert (queue.bytes, queue.age_ms(5_000), files(tmp_path), folder.used_bytes) == (0, 0, 0, 0)


def number_of(output: object) -> int:
    if isinstance(output, WaitingSync):
        return output.t.pro
    assert isinstance(output, WaitingPacket)
    return int.from_bytes(output.record[:4], "big")


def test_what_is_taken_while_more_is_put_keeps_its_order(tmp_path: Path) -> None:
    queue = IntakeQueue(SpoolFolder(tmp_path, 64 * MIB), CHUNK_BYTES)
    numbers = []
    for number in range(2_000):
        queue.put_packet(packet(number), 0)
        if number % 3 == 0 and (taken := queue.take()) is not None:
            assert not isinstance(taken, WaitingSync)
            numbers += [number_of(packet) for packet in taken[:1]]
            queue.done(5_000)
    assert numbers == sorted(numbers)


def test_a_queue_beyond_its_room_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    folder = SpoolFolder(tmp_path, 2 * MIB + 200_000)
    queue = IntakeQueue(folder, MIB)
    taken = 0
    with pytest.raises(SpoolFull):
        for number in range(1_000):
            queue.put_packet(packet(number), 0)
            taken = number + 1
    assert taken * SIZE == queue.bytes > 3 * MIB
    queue.close()
    assert folder.used_bytes == 0 and queue.bytes == 0 and files(tmp_path) == 0


# The tail of live packets.


def tail_of(folder: Path, *, disk: int = 64 * MIB, memory: int = 2 * MIB) -> PacketTail:
    return PacketTail(
        PacketIds(1_000, cast(Any, Merged())), SpoolFolder(folder, disk), max_memory_bytes=memory
    )


def read(tail: PacketTail, start: int, end: int) -> None:
    """Packets with these numbers were read, in turns from two partitions."""
    messages = []
    for number in range(start, end):
        data = write_live("C", Id.make(0xB, number + 1), Id(0, 0), record("T", b"0", bytes(SIZE)))
        value = PacketRecord(RecordOrigin(EDGE, 0xA, number), number, data).encode()
        places = partial(int, number % 2), partial(int, number // 2)
        messages.append(SimpleNamespace(value=partial(bytes, value), partition=places[0], offset=places[1]))
    ends = {("chotki.packets", 0): (end + 1) // 2, ("chotki.packets", 1): end // 2}
    tail.take(Batch(cast(Any, tuple(messages)), ends))


def everything(tail: PacketTail, position: TailPosition) -> list[RelayedPacket]:
    packets: list[RelayedPacket] = []
    while True:
        page, position = tail.read(position)
        if not page:
            return packets
        packets += page


def test_the_tail_is_read_from_any_place_whether_on_disk_or_not(tmp_path: Path) -> None:
    tail = tail_of(tmp_path)
    read(tail, 0, 1_000)
    assert files(tmp_path) >= 6 and len(tail) == 1_000
    packets = everything(tail, tail.start)
    assert [(packet.partition, packet.offset) for packet in packets] == [
        (n % 2, n // 2) for n in range(1_000)
    ]
    assert [packet.session for packet in packets] == [(EDGE, n) for n in range(1_000)]
    assert [packet.after for packet in packets] == list(range(1_000)) and not any(
        packet.is_late for packet in packets
    )
    position = tail.start
    for _ in range(10):
        page, behind = tail.read(position)
        assert everything(tail, behind) == packets[behind.number :]
        assert everything(tail, position) == page + packets[behind.number :]
        position = behind
    at_end = position
    while at_end.number < tail.end:
        _, at_end = tail.read(at_end)
    assert tail.read(at_end) == ([], at_end)
    read(tail, 1_000, 1_001)
    assert [packet.offset for packet in everything(tail, at_end)] == [500]


def test_what_an_epoch_covers_leaves_the_tail_and_the_disk(tmp_path: Path) -> None:
    tail = tail_of(tmp_path)
    read(tail, 0, 1_000)
    before = tail.start
    tail.forget({0: 250, 1: 100})
    assert 0 < 1_000 - len(tail) <= 200, "in its order, and by whole chunks"
    left = everything(tail, before)
    assert [packet.session[1] for packet in left] == list(range(1_000 - len(tail), 1_000))
    tail.forget({0: 500, 1: 500})
    assert len(tail) == 0 and tail.bytes == 0 and files(tmp_path) == 0
    read(tail, 1_000, 1_003)
    assert [packet.session[1] for packet in everything(tail, before)] == [1_000, 1_001, 1_002]
    assert tail.reaches_back_to({0: 0, 1: 0}), "nothing was dropped"


def test_a_tail_beyond_its_bound_loses_the_oldest_and_reaches_back_only_so_far(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, disk=3 * MIB, memory=2 * MIB)
    read(tail, 0, 1_000)
    assert tail.bytes <= 6.5 * MIB
    first = everything(tail, TailPosition(0, 0))[0].session[1]
    assert first > 300
    assert tail.reaches_back_to({0: first // 2 + 1, 1: first // 2 + 1})
    assert not tail.reaches_back_to({0: first // 2 - 1, 1: first // 2 - 1})
    tail.forget({0: 500, 1: 500})
    assert tail.reaches_back_to({0: 500, 1: 500}), "an epoch has what was dropped"


LIMIT = 4_096
FIELD = 1_000
SOURCE = 0xB
KEY = object_key(Id.make(SOURCE, 1, 2), "E")
AT = Id.make(SOURCE, 1, 2)


@pytest.fixture(autouse=True)
def small_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields that are large in these tests."""
    monkeypatch.setattr(storage_limits, "LARGE_FIELD_BYTES", FIELD)
    monkeypatch.setattr("culm_connectors.chotki.local_state.store.LARGE_FIELD_BYTES", FIELD)


def elements(letter: str, size: int, src: int = SOURCE) -> bytes:
    return stamp("E", parse_text("E", f'{{"{letter * size}"}}'), src)


class Held:
    """An edge's store, as its limits see it."""

    def __init__(self, fields: Mapping[bytes, bytes], vector: Mapping[int, int]) -> None:
        self.values = dict(fields)
        self.vector = vector
        self.large_fields = {key: len(value) for key, value in fields.items() if len(value) > FIELD}

    def get(self, key: bytes) -> bytes | None:
        return self.values.get(key)


def check(limits: StorageLimits, fields: list[tuple[bytes, bytes]]) -> None:
    sizes = OperandSizes()
    for field in fields:
        sizes.add([field])
    limits.check_sync(sizes, fields, [])


def test_what_a_field_has_and_what_comes_may_not_exceed_the_limit_together() -> None:
    limits = StorageLimits(Held({KEY: elements("a", 3_000, 0xD)}, {}), LIMIT)
    check(limits, [(KEY, elements("b", 900))])
    check(limits, [(KEY, elements("a", 3_000))])
    for field in ([elements("b", 1_200)], [elements("b", 400), elements("c", 400), elements("d", 400)]):
        with pytest.raises(RecordTooLarge, match="field b-1-2 E, written by b, would have"):
            check(limits, [(KEY, operand) for operand in field])


def test_a_register_may_be_as_large_as_one_packet_holds() -> None:
    key = object_key(Id.make(SOURCE, 1, 1), "S")
    limits = StorageLimits(Held({key: b"0" + bytes(4_000)}, {}), LIMIT)
    check(limits, [(key, b"0" + bytes(4_000))])
    with pytest.raises(RecordTooLarge, match="field b-1-1 S, written by c, would"):
        check(limits, [(key, b"2\x00\x0c" + bytes(4_050))])


def test_bounds_of_operands_are_never_below_what_they_are() -> None:
    sizes = OperandSizes()
    total: dict[bytes, int] = {}
    for number in range(3_000):
        key, value = (number * number % 97).to_bytes(18, "big"), bytes(number % 50)
        sizes.add([(key, value)])
        total[key] = total.get(key, 0) + len(value)
    assert all(sizes.bound(key) >= size for key, size in total.items())
    assert sizes.largest >= max(total.values())


def test_a_live_packet_may_not_make_a_large_field_too_large() -> None:
    limits = StorageLimits(Held({KEY: elements("a", 3_900)}, {}), LIMIT)
    limits.check_live([(KEY, elements("b", 10))])
    with pytest.raises(RecordTooLarge, match="b-1-2 E"):
        limits.check_live([(KEY, elements("b", 300))])


def test_vectors_hold_so_many_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_limits, "MAX_VECTOR_BYTES", 64)
    store = Held({}, {1: 0, 2: 0})
    limits = StorageLimits(store, LIMIT)
    for src in (1, 2, 3, 4, 3, 4, 1):
        limits.check_source(src)
    with pytest.raises(RecordTooLarge):
        limits.check_source(5)
    # What an epoch has not after all is forgotten.
    limits.epoch()
    limits.epoch()
    limits.check_source(5)
    block = Id(SOURCE, 0)
    store.values[vector_key(block)] = write_vector(dict.fromkeys(range(10), 1))
    limits.check_sync(OperandSizes(), [], [(block, write_vector({1: 2}))])
    with pytest.raises(RecordTooLarge):
        limits.check_sync(OperandSizes(), [], [(block, write_vector(dict.fromkeys(range(20, 30), 1)))])


def test_the_store_lists_its_large_fields(tmp_path: Path) -> None:
    def opened() -> ChotkiStore:
        return ChotkiStore.open(tmp_path, ORIGIN, map_size_bytes=1 << 24, max_size_bytes=1 << 26)

    def epoch(number: int, size: int) -> None:
        mark = EpochRecord(number, b"", (), (), ())
        store.apply([(KEY, FieldRecord(bytes(size)).encode())], mark, {0: number})

    store = opened()
    epoch(1, 2_000)
    assert store.large_fields == {KEY: 2_001} and store.get(KEY) == bytes(2_000)
    store.close()
    store = opened()
    assert store.large_fields == {KEY: 2_001}
    store.build([(KEY, FieldRecord(bytes(3_000)).encode())], {0: 2}, {0: None})
    assert store.large_fields == {KEY: 3_001} and store.get(KEY) == bytes(3_000)
    epoch(2, 10)
    assert store.large_fields == {}
    store.close()


async def test_a_sync_that_cannot_be_stored_produces_nothing_and_the_peer_learns_why(tmp_path: Path) -> None:
    producer = Acknowledging()
    reported: list[events.SessionEvent] = []
    settings = ChotkiEdgeSettings(ping_wait_ms=1_000, max_record_bytes=LIMIT, busy_share=0)
    with edge_shared(
        tmp_path, settings=settings, producer=producer, report=lambda _, event: reported.append(event)
    ) as shared:
        mark = EpochRecord(1, write_vector({0: 3}), (), (), ())
        shared.store.apply([(KEY, FieldRecord(elements("a", 3_000, 0xD)).encode())], mark, {0: 1})
        near, far = memory_pair()
        connection = ReplicaConnection(shared, near, 1, "peer")
        task = asyncio.create_task(connection.run())
        block, vector = Id(SOURCE, 0), write_vector({SOURCE: AT.pro})
        await far.write(write_handshake(AT, 7, vector, bytes(10)))
        await far.write(write_parcel(AT, block, [(KEY, elements("b", 1_500))]))
        await far.write(write_end(AT, [block_vector(block, vector)]))
        output = b""
        async with while_working():
            while data := await far.read():
                output += data
            await task
    assert b"chotki.record_size" in output
    assert not producer.produced
    [warned] = [event for event in reported if isinstance(event, Warned)]
    assert warned.code == "chotki.record_size" and "field b-1-2 E, written by b" in warned.message
    assert connection.refusal is not None and connection.refusal.code == "chotki.record_size"
