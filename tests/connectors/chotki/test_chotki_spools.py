"""Data that an edge keeps on disk for a while: chunks, the intake queue and the tail of live packets."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from culm_connectors.chotki.feed.packet_tail import PacketTail, RelayedPacket, TailPosition
from culm_connectors.chotki.spool import (
    CHUNK_BYTES,
    Chunk,
    DiskSpool,
    IntakeQueue,
    SpoolFolder,
    WaitingPacket,
    WaitingSync,
)
from culm_connectors.chotki.warnings.packet_ids import PacketIds
from culm_models.chotki.errors import SpoolFull
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import write_live
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import PacketRecord, RecordOrigin
from culm_topics.readers.batch import Batch

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
