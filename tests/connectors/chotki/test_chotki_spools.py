"""What an edge keeps on disk for a while: the tail of live packets, and what Kafka is too slow for."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket, TailPlace
from culm_connectors.chotki.spool import (
    CHUNK_BYTES,
    Chunk,
    DiskSpool,
    IntakeQueue,
    SpoolRoom,
    WaitingPacket,
    WaitingSync,
)
from culm_connectors.chotki.warnings.packet_ids import PacketIds
from culm_models.chotki.errors import SpoolFull
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import Bringer, PacketRecord
from culm_topics.readers.batch import Batch

KEY = bytes(18)
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
    chunk = Chunk(SpoolRoom(tmp_path, MIB))
    entries = [bytes([number]) * number for number in range(30)]
    for one in entries:
        chunk.append(one)
    if on_disk:
        chunk.spill()
    found, at = [], 0
    while at < chunk.size:
        some, at = chunk.read(at, 7, most_bytes)
        assert 0 < len(some) <= 7
        found += some
    assert found == entries
    assert files(tmp_path) == on_disk
    chunk.drop()
    assert files(tmp_path) == 0


def test_a_room_is_empty_at_the_start_and_gives_no_more_than_it_has(tmp_path: Path) -> None:
    (tmp_path / "chunk-7").write_bytes(b"of a former run")
    room = SpoolRoom(tmp_path, 100)
    assert files(tmp_path) == 0
    room.take(60)
    with pytest.raises(SpoolFull):
        room.write(bytes(41))
    assert room.used_bytes == 60 and files(tmp_path) == 0
    room.give(60)
    room.write(bytes(100))
    assert room.used_bytes == 100


def test_a_disk_that_takes_nothing_is_a_full_one(tmp_path: Path) -> None:
    room = SpoolRoom(tmp_path / "folder", 100)
    (tmp_path / "folder").rmdir()
    with pytest.raises(SpoolFull, match="chunk-0"):
        room.write(b"x")
    assert room.used_bytes == 0


def test_the_fields_of_a_sync_take_room_until_it_is_closed(tmp_path: Path) -> None:
    room = SpoolRoom(tmp_path, 1_000)
    spool = DiskSpool(room)
    fields = [(KEY, bytes([number]) * 50) for number in range(10)]
    spool.extend(fields)
    assert room.used_bytes == 720
    with pytest.raises(SpoolFull):
        DiskSpool(room).extend(fields)
    spool.keep()
    spool.drop()
    assert list(spool.fields()) == fields
    spool.close()
    spool.close()
    assert room.used_bytes == 0


# What Kafka is too slow for.


def packet(number: int) -> WaitingPacket:
    return WaitingPacket(0xB, None if number % 3 == 0 else number, number.to_bytes(4, "big") * (SIZE // 4))


def test_packets_and_syncs_come_out_of_memory_and_disk_as_they_went_in(tmp_path: Path) -> None:
    room = SpoolRoom(tmp_path, 64 * MIB)
    queue = IntakeQueue(room, 2 * MIB)
    expected: list[object] = []
    for number in range(1_000):
        expected.append(packet(number))
        queue.put_packet(packet(number), number)
        if number in (3, 500, 501, 999):
            sync = WaitingSync(Id(0xB, number), DiskSpool(room), [], b"", b"")
            queue.put_sync(sync, number)
            expected.append(sync)
    assert files(tmp_path) >= 6 and queue.bytes == 1_000 * SIZE + 4
    found: list[object] = []
    while (taken := queue.take()) is not None:
        found += [taken] if isinstance(taken, WaitingSync) else taken
        first = found[-1] if isinstance(taken, WaitingSync) else taken[0]
        assert queue.age_ms(2_000) == 2_000 - number_of(first)
        queue.done(5_000)
    assert found == expected
    assert (queue.bytes, queue.age_ms(5_000), files(tmp_path), room.used_bytes) == (0, 0, 0, 0)


def number_of(one: object) -> int:
    if isinstance(one, WaitingSync):
        return one.t.pro
    assert isinstance(one, WaitingPacket)
    return int.from_bytes(one.record[:4], "big")


def test_what_is_taken_while_more_is_put_keeps_its_order(tmp_path: Path) -> None:
    queue = IntakeQueue(SpoolRoom(tmp_path, 64 * MIB), CHUNK_BYTES)
    found = []
    for number in range(2_000):
        queue.put_packet(packet(number), 0)
        if number % 3 == 0 and (taken := queue.take()) is not None:
            assert not isinstance(taken, WaitingSync)
            found += [number_of(one) for one in taken[:1]]
            queue.done(5_000)
    assert found == sorted(found)


def test_a_queue_beyond_its_room_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    room = SpoolRoom(tmp_path, 2 * MIB + 200_000)
    queue = IntakeQueue(room, MIB)
    taken = 0
    with pytest.raises(SpoolFull):
        for number in range(1_000):
            queue.put_packet(packet(number), 0)
            taken = number + 1
    assert taken * SIZE == queue.bytes > 3 * MIB
    queue.close()
    assert room.used_bytes == 0 and queue.bytes == 0 and files(tmp_path) == 0


# The tail of live packets.


def tail_of(folder: Path, *, disk: int = 64 * MIB, memory: int = 2 * MIB) -> PacketTail:
    return PacketTail(PacketIds(1_000, cast(Any, Merged())), SpoolRoom(folder, disk), max_memory_bytes=memory)


def read(tail: PacketTail, start: int, end: int) -> None:
    """Packets with these numbers were read, in turns from two partitions."""
    messages = []
    for number in range(start, end):
        data = write_live("C", Id.make(0xB, number + 1), Id(0, 0), record("T", b"0", bytes(SIZE)))
        value = PacketRecord(Bringer(EDGE, 0xA, number), number, data).encode()
        places = partial(int, number % 2), partial(int, number // 2)
        messages.append(SimpleNamespace(value=partial(bytes, value), partition=places[0], offset=places[1]))
    ends = {("chotki.packets", 0): (end + 1) // 2, ("chotki.packets", 1): end // 2}
    tail.take(Batch(cast(Any, tuple(messages)), ends))


def everything(tail: PacketTail, place: TailPlace) -> list[RelayedPacket]:
    found: list[RelayedPacket] = []
    while True:
        some, place = tail.read(place)
        if not some:
            return found
        found += some


def test_the_tail_is_read_from_any_place_whether_on_disk_or_not(tmp_path: Path) -> None:
    tail = tail_of(tmp_path)
    read(tail, 0, 1_000)
    assert files(tmp_path) >= 6 and len(tail) == 1_000
    found = everything(tail, tail.start)
    assert [(one.partition, one.offset) for one in found] == [(n % 2, n // 2) for n in range(1_000)]
    assert [one.session for one in found] == [(EDGE, n) for n in range(1_000)]
    assert [one.after for one in found] == list(range(1_000)) and not any(one.is_late for one in found)
    place = tail.start
    for _ in range(10):
        some, behind = tail.read(place)
        assert everything(tail, behind) == found[behind.number :]
        assert everything(tail, place) == some + found[behind.number :]
        place = behind
    at_end = place
    while at_end.number < tail.end:
        _, at_end = tail.read(at_end)
    assert tail.read(at_end) == ([], at_end)
    read(tail, 1_000, 1_001)
    assert [one.offset for one in everything(tail, at_end)] == [500]


def test_what_an_epoch_covers_leaves_the_tail_and_the_disk(tmp_path: Path) -> None:
    tail = tail_of(tmp_path)
    read(tail, 0, 1_000)
    before = tail.start
    tail.forget({0: 250, 1: 100})
    assert 0 < 1_000 - len(tail) <= 200, "in its order, and by whole chunks"
    left = everything(tail, before)
    assert [one.session[1] for one in left] == list(range(1_000 - len(tail), 1_000))
    tail.forget({0: 500, 1: 500})
    assert len(tail) == 0 and tail.bytes == 0 and files(tmp_path) == 0
    read(tail, 1_000, 1_003)
    assert [one.session[1] for one in everything(tail, before)] == [1_000, 1_001, 1_002]
    assert tail.reaches_back_to({0: 0, 1: 0}), "nothing was dropped"


def test_a_tail_beyond_its_bound_loses_the_oldest_and_reaches_back_only_so_far(tmp_path: Path) -> None:
    tail = tail_of(tmp_path, disk=3 * MIB, memory=2 * MIB)
    read(tail, 0, 1_000)
    assert tail.bytes <= 6.5 * MIB
    first = everything(tail, TailPlace(0, 0))[0].session[1]
    assert first > 300
    assert tail.reaches_back_to({0: first // 2 + 1, 1: first // 2 + 1})
    assert not tail.reaches_back_to({0: first // 2 - 1, 1: first // 2 - 1})
    tail.forget({0: 500, 1: 500})
    assert tail.reaches_back_to({0: 500, 1: 500}), "an epoch has what was dropped"
