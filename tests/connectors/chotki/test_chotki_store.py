"""Chotki's local store: one epoch after the other, snapshots of one moment, trusted or begun anew."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_connectors.chotki.errors import StateUnreadable, StoreIncomplete
from culm_connectors.chotki.local_state import layout
from culm_connectors.chotki.local_state.layout import pack_field, unpack_field
from culm_connectors.chotki.local_state.snapshot import EpochSnapshot
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.local_store.errors import SnapshotLost, StoreBusy, StoreFull
from culm_connectors.local_store.lmdb_file import DATA_FILE
from culm_models.chotki.ids import BLOCK_BITS, GLOBAL_VECTOR_KEY, Id, object_key, vector_key
from culm_models.chotki.log0 import common_store
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.store import MemoryStore
from culm_topics.chotki.records import BlockVectorRecord, EpochRecord, FieldRecord, epoch_key
from culm_topics.kafka.origin import Origin
from tests.support.freeze import chotki_store, frozen

ORIGIN = Origin("cluster-1", {"culm.chotki.state": "topic-1"})
OFFSETS = {0: 7, 1: 9}
SRC = 0xA
MIB = 1 << 20


def opened(
    folder: Path, origin: Origin = ORIGIN, *, map_size_bytes: int = 64 * MIB, max_size_bytes: int = 1 << 30
) -> ChotkiStore:
    return ChotkiStore.open(folder, origin, map_size_bytes=map_size_bytes, max_size_bytes=max_size_bytes)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChotkiStore]:
    opened_store = opened(tmp_path)
    yield opened_store
    opened_store.close()


def key_of(number: int, letter: str = "S") -> bytes:
    return object_key(Id.make(SRC, number, 1), letter)


def field(number: int, value: bytes, seen: bytes | None = None, letter: str = "S") -> tuple[bytes, bytes]:
    return key_of(number, letter), FieldRecord(value, seen).encode()


def mark(epoch: int, last: int, packets: Mapping[int, int] | None = None) -> EpochRecord:
    vector = write_vector({0: Id.make(0, 3).pro, SRC: Id.make(SRC, last).pro})
    return EpochRecord(epoch, vector, tuple((packets or {}).items()), (), ())


def held(snapshot: EpochSnapshot) -> dict[bytes, bytes]:
    return {key: value for key, value, _ in snapshot.fields(b"O")} | dict(snapshot.vectors())


def test_a_store_before_the_first_epoch_has_what_every_fresh_replica_holds(store: ChotkiStore) -> None:
    snapshot = store.snapshot()
    assert held(snapshot) == common_store()
    assert list(held(snapshot)) == sorted(common_store())
    assert (snapshot.epoch, snapshot.vector, snapshot.packets) == (0, {0: Id.make(0, 3).pro}, {})
    assert not store.state_offsets and not store.is_incomplete


def test_an_epoch_is_applied_whole_with_its_vector_and_its_offsets(store: ChotkiStore) -> None:
    block = write_vector({SRC: Id.make(SRC, 2).pro})
    end = mark(1, 2, {0: 5, 1: 6})
    records = [
        field(1, b"0old"),
        field(2, b"\x01", seen=block, letter="N"),
        field(1, b"0new"),
        (vector_key(Id(SRC, 0)), BlockVectorRecord(block).encode()),
        (epoch_key(0), end.encode()),
    ]
    store.apply(records, end, OFFSETS)
    snapshot = store.snapshot()
    assert list(snapshot.fields(key_of(1))) == [(key_of(1), b"0new", None), (key_of(2, "N"), b"\x01", block)]
    assert next(iter(snapshot.vectors())) == (GLOBAL_VECTOR_KEY, end.vector)
    assert snapshot.get(GLOBAL_VECTOR_KEY) == end.vector and snapshot.get(vector_key(Id(SRC, 0))) == block
    assert snapshot.get(key_of(1)) == b"0new" and snapshot.get(key_of(3)) is None
    for view in (snapshot, store):
        assert view.epoch == 1 and view.packets == {0: 5, 1: 6}
        assert view.vector == {0: Id.make(0, 3).pro, SRC: Id.make(SRC, 2).pro}
    assert store.state_offsets == OFFSETS and store.marks == {0: end, 1: end}


def test_a_snapshot_stays_as_it_was_when_later_epochs_are_applied(store: ChotkiStore) -> None:
    store.apply([field(1, b"0a")], mark(1, 1), OFFSETS)
    before = store.snapshot()
    walking = before.fields(b"O")
    next(walking)
    store.apply([field(1, b"0b"), field(2, b"0c")], mark(2, 2), OFFSETS)
    assert [value for key, value, _ in walking if key[1:9] == SRC.to_bytes(8, "big")] == [b"0a"]
    assert (before.epoch, before.vector[SRC]) == (1, Id.make(SRC, 1).pro)
    after = store.snapshot()
    assert (after.epoch, after.get(key_of(2))) == (2, b"0c")


def test_what_a_snapshot_gives_is_what_a_store_in_memory_gives(store: ChotkiStore) -> None:
    # More than fit into the first chunks.
    values = {key_of(number): b"0%d" % number for number in range(3_000)}
    store.apply([(key, FieldRecord(value).encode()) for key, value in values.items()], mark(1, 1), OFFSETS)
    snapshot, memory = store.snapshot(), MemoryStore(held(store.snapshot())).snapshot()
    for start in (b"O", key_of(0), key_of(17), key_of(2_999), key_of(3_000), object_key(Id(SRC, 0), "\0")):
        assert list(snapshot.fields(start)) == list(memory.fields(start))
        for end in (key_of(0), key_of(18), key_of(2_999), b"P"):
            assert sum(snapshot.sizes(start, end)) == sum(memory.sizes(start, end))
    assert list(snapshot.vectors()) == list(memory.vectors())


def test_a_block_is_measured_once_until_it_changes(
    store: ChotkiStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []
    measured = EpochSnapshot._measured

    def counted(of: EpochSnapshot, start: bytes, end: bytes) -> Iterator[int]:
        read.append(start)
        return measured(of, start, end)

    monkeypatch.setattr(EpochSnapshot, "_measured", counted)
    first, second = (object_key(Id(SRC, number << BLOCK_BITS), "\0")[:17] for number in range(2))
    end = object_key(Id(SRC, 2 << BLOCK_BITS), "\0")[:17]

    def sizes() -> list[int]:
        snapshot = store.snapshot()
        block_sizes = [sum(snapshot.sizes(*block)) for block in ((first, second), (second, end))]
        snapshot.release()
        return block_sizes

    store.apply([field(1, b"0a"), (second + b"S", FieldRecord(b"0bcd").encode())], mark(1, 1), OFFSETS)
    assert sizes() == sizes() == [2, 4]
    assert read == [first, second]
    # While one session measures a block, another one waits for what it finds.
    store.apply([field(1, b"0abcd")], mark(2, 2), OFFSETS)
    snapshots = [store.snapshot() for _ in range(2)]
    measuring, waiting = (snapshot.sizes(first, second) for snapshot in snapshots)
    assert (next(measuring), next(waiting)) == (5, 0)
    assert (list(measuring), list(waiting)) == ([], [5])
    assert read.count(first) == 2
    # One that goes away in the middle leaves it to others.
    store.apply([field(1, b"0a")], mark(3, 2), OFFSETS)
    measuring, waiting = (snapshot.sizes(first, second) for snapshot in [store.snapshot() for _ in range(2)])
    assert (next(measuring), next(waiting)) == (2, 0)
    del measuring
    assert sum(waiting) == 2
    for snapshot in snapshots:
        snapshot.release()
    read[:] = [first, second]
    store.apply([field(2, b"0ab")], mark(4, 2), OFFSETS)
    assert sizes() == [5, 4]
    assert read == [first, second, first]


def test_large_values_are_read_a_megabyte_or_so_at_a_time(store: ChotkiStore) -> None:
    values = {key_of(number): os.urandom(MIB) for number in range(24)}
    store.apply([(key, FieldRecord(value).encode()) for key, value in values.items()], mark(1, 1), OFFSETS)
    assert {key: value for key, value, _ in store.snapshot().fields(key_of(0))} == values


def test_a_diff_of_many_fields_is_walked_in_well_under_a_second(store: ChotkiStore) -> None:
    count = 300_000
    seen = write_vector({SRC: 1})
    records = ((key_of(number, "N"), FieldRecord(b"value", seen).encode()) for number in range(count))
    store.apply(records, mark(1, 1), OFFSETS)
    begun_s = time.process_time()
    assert sum(1 for _ in store.snapshot().fields(key_of(0, "N"))) == count
    assert time.process_time() - begun_s < 1.0


def test_a_snapshot_that_was_released_is_over(store: ChotkiStore) -> None:
    snapshot = store.snapshot()
    walking = snapshot.fields(b"O")
    snapshot.release()
    snapshot.release()
    with pytest.raises(SnapshotLost):
        next(walking)
    with pytest.raises(SnapshotLost):
        snapshot.get(GLOBAL_VECTOR_KEY)


def test_a_file_that_must_grow_takes_snapshots_back_and_waits_for_nobody(tmp_path: Path) -> None:
    store = opened(tmp_path, map_size_bytes=MIB)
    snapshot = store.snapshot()
    store.apply([field(number, os.urandom(MIB)) for number in range(4)], mark(1, 1), OFFSETS)
    with pytest.raises(SnapshotLost):
        next(snapshot.fields(b"O"))
    assert store.snapshot().epoch == 1
    store.close()


def test_a_store_of_the_size_that_it_may_have_is_as_it_was(tmp_path: Path) -> None:
    store = opened(tmp_path, map_size_bytes=MIB, max_size_bytes=2 * MIB)
    store.apply([field(1, b"0a")], mark(1, 1), OFFSETS)
    with pytest.raises(StoreFull):
        store.apply([field(number, os.urandom(MIB)) for number in range(4)], mark(2, 2), {0: 99})
    assert (store.epoch, store.state_offsets) == (1, OFFSETS)
    store.close()


def test_a_store_that_is_built_gives_no_snapshot_until_it_is_at_an_epoch(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.build([field(1, b"0a")], {0: 4}, {0: None})
    with pytest.raises(StoreIncomplete):
        store.snapshot()
    store.build([], {1: 3}, {1: mark(1, 1)})
    store.close()
    store = opened(tmp_path)
    assert store.is_incomplete and store.state_offsets == {0: 4, 1: 3} and store.marks == {1: mark(1, 1)}
    store.apply([field(2, b"0b")], mark(1, 1), {0: 5})
    assert not store.is_incomplete and store.marks == {0: mark(1, 1), 1: mark(1, 1)}
    snapshot = store.snapshot()
    assert (snapshot.epoch, snapshot.get(key_of(1)), snapshot.get(key_of(2))) == (1, b"0a", b"0b")
    store.close()


def test_a_store_is_kept_with_its_epoch_when_it_is_opened_again(tmp_path: Path) -> None:
    store = opened(tmp_path)
    store.apply([field(1, b"0a")], mark(3, 1, {0: 8}), OFFSETS)
    with pytest.raises(StoreBusy):
        opened(tmp_path)
    store.close()
    store = opened(tmp_path)
    assert (store.epoch, store.packets, store.state_offsets) == (3, {0: 8}, OFFSETS)
    assert store.snapshot().get(key_of(1)) == b"0a"
    store.close()


@pytest.mark.parametrize(
    "origin",
    [
        Origin("cluster-2", {"culm.chotki.state": "topic-1"}),
        Origin("cluster-1", {"culm.chotki.state": "topic-2"}),
        Origin("cluster-1", {"other.chotki.state": "topic-1"}),
    ],
    ids=["another cluster", "a topic created anew", "another prefix"],
)
def test_a_store_of_other_topics_is_dropped_loudly(
    tmp_path: Path, origin: Origin, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(tmp_path)
    store.apply([field(1, b"0a")], mark(1, 1), OFFSETS)
    store.close()
    with caplog.at_level(logging.WARNING):
        store = opened(tmp_path, origin)
    assert "local_store.foreign" in caplog.text
    assert store.epoch == 0 and not store.state_offsets and held(store.snapshot()) == common_store()
    store.close()


def _condemn(folder: Path) -> None:
    store = opened(folder)
    store.condemn()
    store.close()


def _another_format(folder: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("culm_connectors.chotki.local_state.layout.FORMAT", 2)
        opened(folder).close()


def _cut_short(folder: Path) -> None:
    (folder / "state.json").unlink()
    with (folder / DATA_FILE).open("r+b") as file:
        file.truncate((folder / DATA_FILE).stat().st_size // 2)


def _changed(folder: Path) -> None:
    with (folder / DATA_FILE).open("r+b") as file:
        file.seek(-64, os.SEEK_END)
        file.write(os.urandom(64))


@pytest.mark.parametrize("damage", [_condemn, _another_format, _cut_short, _changed])
def test_a_store_that_cannot_be_trusted_is_dropped_loudly(
    tmp_path: Path, damage: object, caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(tmp_path)
    store.apply([field(number, b"0" * 100) for number in range(1_000)], mark(1, 1), OFFSETS)
    store.close()
    assert callable(damage)
    damage(tmp_path)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        store = opened(tmp_path)
    assert caplog.text.count("local_store.damaged") == 1
    assert store.epoch == 0 and held(store.snapshot()) == common_store()
    store.close()


@pytest.mark.parametrize(
    "record",
    [
        (key_of(2), b"\x00"),
        (key_of(2), FieldRecord(b"0a").encode() + b"\x00"),
        (vector_key(Id(SRC, 0)), BlockVectorRecord(b"").encode()[:-1]),
        (b"unknown", b""),
    ],
)
def test_a_record_that_cannot_be_read_leaves_the_store_at_its_epoch(
    store: ChotkiStore, record: tuple[bytes, bytes]
) -> None:
    with pytest.raises(StateUnreadable):
        store.apply([field(1, b"0a"), record], mark(1, 1), OFFSETS)
    assert store.epoch == 0 and held(store.snapshot()) == common_store()


@given(st.binary(max_size=300), st.none() | st.binary(max_size=70_000))
def test_fields_are_unpacked_as_they_were_packed(value: bytes, seen: bytes | None) -> None:
    assert unpack_field(pack_field(value, seen)) == (value, seen)


@pytest.mark.parametrize("size", [0, 252, 253, 254, 255, 256, 65_536])
def test_seen_vectors_of_every_length_come_back(size: int) -> None:
    assert unpack_field(pack_field(b"value", bytes(size))) == (b"value", bytes(size))


@pytest.mark.parametrize("packed", [b"", b"\x05abc", b"\xff\x00\x00\x00\x04abc", b"\xff\x00"])
def test_a_field_that_was_not_packed_is_refused(packed: bytes) -> None:
    with pytest.raises(ValueError):
        unpack_field(packed)


def test_a_kept_store_of_this_format_is_served_and_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert layout.FORMAT == 1, "make the fixture anew, and keep this one beside it"
    with caplog.at_level(logging.INFO):
        contents = chotki_store.read(frozen.unpack(chotki_store.NAME, tmp_path))
    assert not caplog.records, "neither in doubt, nor dropped"
    frozen.assert_as_kept(chotki_store.NAME, contents)
