"""The parts of `culm demo chotki` without its processes: edits, the recorded replica, the verdict."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.memory import memory_pair
from culm_infra.demo.chotki.edits import Editor
from culm_infra.demo.chotki.plan import LETTERS, RECORDED_OBJECTS
from culm_infra.demo.chotki.recording import RecordedReplica
from culm_infra.demo.chotki.verdict import Holder, alike, judge, merged, wrong_sums
from culm_infra.demo.kit.figures import SceneFigures
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import delta, parse_text
from culm_models.chotki.replica import Replica
from tests.support.waiting import until

VECTORS = Path(__file__).parents[2] / "vectors" / "chotki"


def editor(name: str, src: int) -> Editor:
    return Editor(name, ReplicaPeer(Replica(src, name=name)), random.Random(name))


async def meet(one: ReplicaPeer, other: ReplicaPeer) -> None:
    """One session in which each gets what the other has."""
    near, far = memory_pair()
    await asyncio.gather(one.speak(near, mode=3), other.speak(far, mode=3))


def test_every_type_is_edited_and_the_same_seed_edits_the_same() -> None:
    stores = []
    for _ in range(2):
        ada = editor("ada", 0xADA)
        class_id = ada.new_class()
        objects = [ada.new_object(class_id) for _ in range(3)]
        for _ in range(20):
            ada.edit_every_type(objects)
        ada.rename(class_id)
        ada.new_replica_object()
        assert set(ada.made) == {*LETTERS, *"COY"}
        stores.append(ada.peer.replica.store.values())
    assert stores[0] == stores[1]


async def test_two_that_edit_at_one_time_are_alike_once_they_have_met() -> None:
    ada, ben = editor("ada", 0xADA), editor("ben", 0xBE4)
    class_id = ada.new_class()
    objects = [ada.new_object(class_id) for _ in range(2)]
    await meet(ada.peer, ben.peer)
    for _ in range(10):
        ada.edit_every_type(objects)
        ben.edit_every_type(objects)
    assert not alike([ada.peer.replica.store.values(), ben.peer.replica.store.values()])
    await meet(ada.peer, ben.peer)
    stores = [ada.peer.replica.store.values(), ben.peer.replica.store.values()]
    assert alike(stores)
    added = Counter(ada.added)
    added.update(ben.added)
    assert wrong_sums({}, merged(stores), added) == 0


async def test_the_recorded_replica_says_what_the_go_replica_said_and_keeps_what_it_hears() -> None:
    recorded = RecordedReplica()
    session = json.loads((VECTORS / "full_connector_empty_listener.json").read_text())
    assert recorded.stream.hex() == session["streams"]["1:connector"]
    before = {key.hex(): value.hex() for key, value in recorded.replica.store.values().items()}
    assert before == session["before"]["connector"]
    ada = editor("ada", 0xADA)
    for _ in range(2):
        near, far = memory_pair()
        talking = asyncio.create_task(ada.peer.speak(near))
        hearing = asyncio.create_task(recorded.speak(far))
        last = object_key(RECORDED_OBJECTS[2], "O")
        await until(lambda last=last: ada.peer.replica.store.get(last) is not None)  # type: ignore[misc]
        ada.edit_every_type(RECORDED_OBJECTS)
        await until(lambda: alike([ada.peer.replica.store.values(), recorded.replica.store.values()]))
        talking.cancel()
        await asyncio.gather(talking, hearing, return_exceptions=True)
    assert recorded.replayed == 2


def test_who_lacks_a_field_or_a_vector_is_found() -> None:
    ada = editor("ada", 0xADA)
    one = ada.new_object(ada.new_class())
    before = ada.peer.replica.store.values()
    ada.edit(one, "S")
    scene = scene_of([ada.peer.replica.store.values(), before], ada.made)
    holders = scene.listings[0].rows
    assert [(row["lacking_fields"], row["lacking_vectors"]) for row in holders] == [(0, 0), (1, 2)]
    assert holders[0]["state_hash"] != holders[1]["state_hash"]
    assert not scene.holds
    assert "late lacks changes of 1 fields" in scene.unreached
    assert "1 fields of type S are not yet the same" in scene.unreached


def test_lists_in_another_order_are_no_problem() -> None:
    ada = editor("ada", 0xADA)
    ada.made.update({*LETTERS, *"COY"})
    one = ada.new_object(ada.new_class())
    ada.edit(one, "L")
    store = ada.peer.replica.store.values()
    key = object_key(Id(one.src, one.pro + LETTERS.index("L") + 1), "L")
    assert scene_of([store, store | {key: store[key] * 2}], ada.made).holds


@pytest.mark.parametrize("letter", ["N", "Z"])
def test_a_counter_that_lost_or_repeats_an_edit_is_found(letter: str) -> None:
    key = object_key(Id.make(1, 2, 3), letter)
    before = {key: delta(letter, b"", parse_text(letter, "5"), src=1)}
    after = {key: delta(letter, b"", parse_text(letter, "7"), src=1)}
    assert wrong_sums(before, after, Counter({key: 2})) == 0
    assert wrong_sums(before, after, Counter({key: 4})) == 1
    assert wrong_sums(before, after, Counter()) == 1


def scene_of(stores: list[dict[bytes, bytes]], made: Counter[str]) -> SceneFigures:
    named = zip(("ada", "late"), stores, strict=True)
    return judge([Holder(name, "replica", "west, quic", store) for name, store in named], made, {}, Counter())
