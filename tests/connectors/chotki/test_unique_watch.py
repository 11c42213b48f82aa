"""An edge finds objects that have one value where Go refuses that: in its store, epochs and packets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.warnings.unique_watch import UniqueWatch
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.packets.live import read_live, write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import write_vector
from culm_models.chotki.rdx.classes import HASH_INDEX, ClassField, write_class
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.tlv import record
from culm_topics.chotki.records import EpochRecord, FieldRecord
from tests.support.chotki.edge import ORIGIN

PERSON, OTHER = Id.make(0xA, 1), Id.make(0xA, 9)
CLASS = write_class([ClassField(1, "S", "Name"), ClassField(2, "S", "Mail", HASH_INDEX)])
Records = list[tuple[bytes, bytes]]


def class_packet(fields: bytes = CLASS, id: Id = PERSON) -> bytes:
    return write_live("C", id, Id(0, 0), fields)


def person(seq: int, mail: str, class_id: Id = PERSON) -> bytes:
    body = record("S", write_first(0, 0, b"x")) + record("S", write_first(0, 0, mail.encode()))
    return write_live("O", Id.make(0xB, seq), class_id, body)


def new_mail(src: int, seq: int, of: int, mail: str, rev: int = 1) -> bytes:
    body = record("f", b"\x02") + record("S", write_first(2 * rev, 0, mail.encode()))
    return write_live("E", Id.make(src, seq), Id.make(0xB, of), body)


def records(*packets: bytes) -> Records:
    """What an epoch of these packets has."""
    writes = [write for packet in packets for write in read_live(parse(packet), packet).writes]
    return [(key, FieldRecord(value).encode()) for key, value in writes]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChotkiStore]:
    opened_store = ChotkiStore.open(tmp_path, ORIGIN, map_size_bytes=1 << 24, max_size_bytes=1 << 26)
    yield opened_store
    opened_store.close()


def apply(store: ChotkiStore, *packets: bytes) -> Records:
    written = records(*packets)
    mark = EpochRecord(store.epoch + 1, write_vector({}), (), (), ())
    store.apply(written, mark, {0: store.epoch + 1})
    return written


def named(conflicts: list) -> list[list[str]]:  # type: ignore[type-arg]
    return [[str(holder.object) for holder in conflict.holders] for conflict in conflicts]


def test_what_the_store_holds_is_looked_through_at_the_start(store: ChotkiStore) -> None:
    apply(store, class_packet(), person(1, "a"), person(2, "b"), person(3, "a"), person(4, "a", OTHER))
    watch = UniqueWatch(store, 100)
    assert named(watch.scan()) == [["b-1", "b-3"]]
    assert watch.count == 1


def test_an_epoch_is_looked_at_and_one_that_is_changed_is_no_duplicate_any_more(store: ChotkiStore) -> None:
    watch = UniqueWatch(store, 100)
    watch.scan()
    assert watch.records(apply(store, class_packet(), person(1, "a"))) == []
    assert named(watch.records(apply(store, person(2, "a")))) == [["b-1", "b-2"]]
    assert watch.records(apply(store, new_mail(0xC, 1, 2, "b"))) == []
    assert watch.count == 0


def test_a_field_that_is_indexed_later_is_looked_through(store: ChotkiStore) -> None:
    plain = write_class([ClassField(1, "S", "Name"), ClassField(2, "S", "Mail")])
    watch = UniqueWatch(store, 100)
    watch.scan()
    watch.records(apply(store, class_packet(plain), person(1, "a"), person(2, "a")))
    assert watch.count == 0
    assert named(watch.records(apply(store, class_packet()))) == [["b-1", "b-2"]]


def test_a_packet_is_looked_at_before_any_epoch_has_it(store: ChotkiStore) -> None:
    watch = UniqueWatch(store, 100)
    watch.scan()
    packets = [class_packet(), person(1, "a"), person(2, "b"), person(3, "a"), new_mail(0xC, 1, 2, "a")]
    conflicts = [watch.packet(packet) for packet in packets]
    assert [named(conflict) for conflict in conflicts] == [
        [],
        [],
        [],
        [["b-1", "b-3"]],
        [["b-1", "b-3", "b-2"]],
    ]
    assert [holder.writer for holder in conflicts[-1][0].holders] == [0xB, 0xB, 0xC]
    # The epoch that has them tells of nothing new.
    assert watch.records(apply(store, *packets[:4])) == []


def test_an_edit_that_loses_the_merge_changes_nothing(store: ChotkiStore) -> None:
    watch = UniqueWatch(store, 100)
    watch.scan()
    watch.records(apply(store, class_packet(), person(1, "a"), person(2, "b")))
    watch.records(apply(store, new_mail(0xC, 1, 2, "c", rev=5)))
    assert watch.packet(new_mail(0xD, 1, 2, "a", rev=2)) == []
    assert named(watch.packet(new_mail(0xD, 2, 2, "a", rev=6))) == [["b-1", "b-2"]]


def test_a_store_that_was_built_on_is_looked_through_again(store: ChotkiStore) -> None:
    watch = UniqueWatch(store, 100)
    watch.scan()
    assert watch.records(None) == []
    apply(store, class_packet(), person(1, "a"), person(2, "a"))
    assert named(watch.records([])) == [["b-1", "b-2"]]
    assert store.snapshot().get(object_key(Id.make(0xB, 1), "O")) is not None
