"""Storage limits of an edge: fields, packets and syncs that the deployment cannot store."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from culm_connectors.chotki import storage_limits
from culm_connectors.chotki.connection import ReplicaConnection
from culm_connectors.chotki.errors import Warned
from culm_connectors.chotki.local_state.store import ChotkiStore
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.chotki.storage_limits import OperandSizes, StorageLimits
from culm_connectors.transport.memory import memory_pair
from culm_models.chotki import events
from culm_models.chotki.errors import RecordTooLarge
from culm_models.chotki.ids import Id, object_key, vector_key
from culm_models.chotki.packets.handshake import write_handshake
from culm_models.chotki.packets.parcels import block_vector, write_end, write_parcel
from culm_models.chotki.rdx import parse_text, stamp, write_vector
from culm_topics.chotki.records import EpochRecord, FieldRecord
from tests.support.chotki.edge import ORIGIN, Acknowledging, edge_shared
from tests.support.process.waiting import while_working

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
