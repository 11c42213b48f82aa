"""What a p2panda node is sent: each operation after those that it refers to, and no document in the way."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_connectors.aquadoggo import document_order
from culm_connectors.aquadoggo.document_order import DocumentOrder
from culm_connectors.index.store import Pair, Range
from culm_connectors.p2panda.sessions import Link
from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.p2panda.checks import CheckedEntry, check_entry
from culm_models.p2panda.operation import encode_operation
from culm_models.p2panda.ranges import EntryRange, missing
from culm_models.p2panda.store import MemoryLogStore
from tests.support.logs import SCHEMA, author

NAMES = ("ann", "bob", "cyn")


class Someone:
    """Stands for a connection: the arrangement keeps what it knows of one by its identity."""

    name = "node"


class Reader:
    """Reads a store, at most `entries_at_once` entries in one go."""

    def __init__(self, store: MemoryLogStore, entries_at_once: int = 3) -> None:
        self.store = store
        self.entries_at_once = entries_at_once

    async def read_ranges(self, ranges: Sequence[Range], max_bytes: int) -> list[list[Pair]]:
        found: list[list[Pair]] = []
        room = self.entries_at_once
        for public_key, log_id, first, last in ranges:
            pairs = list(self.store.entries(public_key, log_id, first, last))[:room]
            found.append(pairs)
            room -= len(pairs)
            if room <= 0:
                break
        return found


class World:
    """Authors that write to documents together; all that they write, in the order of writing."""

    def __init__(self) -> None:
        self.logs: dict[tuple[bytes, int], list[CheckedEntry]] = {}
        self.written: list[CheckedEntry] = []

    def write(self, name: str, log_id: int, previous: tuple[bytes, ...] | None = None) -> bytes:
        """One operation; returns its id."""
        key = author(name)
        log = self.logs.setdefault((key.public_key, log_id), [])
        seq_num = len(log) + 1
        operation = encode_operation(
            "create" if previous is None else "update",
            SCHEMA,
            previous=None if previous is None else tuple(sorted(set(previous))),
            fields={"name": f"{name} {log_id} {seq_num}"},
        )
        entry = sign_entry(
            key,
            log_id,
            seq_num,
            operation,
            skiplink=log[lipmaa(seq_num) - 1].hash if needs_skiplink(seq_num) else None,
            backlink=log[-1].hash if log else None,
        )
        log.append(check_entry(entry, operation))
        self.written.append(log[-1])
        return log[-1].hash

    def store(self, entries: Sequence[CheckedEntry] | None = None) -> MemoryLogStore:
        store = MemoryLogStore()
        store.append(self.written if entries is None else entries)
        return store


def lacking(store: MemoryLogStore, node: MemoryLogStore) -> list[EntryRange]:
    heights = {(key, log_id): height for key, log_id, height in node.all_log_heights()}
    return missing(store, 0, store.all_log_heights(), heights)


async def arrange(order: DocumentOrder, link: object, ranges: Sequence[EntryRange]) -> list[EntryRange]:
    return [part async for parts in order.arrange(cast(Link, link), ranges) for part in parts]


def take(
    store: MemoryLogStore, node: MemoryLogStore, ranges: Sequence[EntryRange], refused: set[bytes]
) -> bool:
    """What a node does with a session's entries; False where it ends the session before the last of them."""
    held = {
        hash_ for key, log_id, height in node.all_log_heights() for hash_ in hashes(node, key, log_id, height)
    }
    for part in ranges:
        for pair in store.entries(part.public_key, part.log_id, part.first_seq_num, part.last_seq_num):
            checked = check_entry(*pair)
            follows = checked.entry.seq_num == node.height(*checked.log) + 1
            if not follows or checked.hash in refused or not set(checked.previous or ()) <= held:
                return False
            node.append([checked])
            held.add(checked.hash)
    return True


def hashes(store: MemoryLogStore, key: bytes, log_id: int, height: int) -> list[bytes]:
    return [cast(bytes, store.entry_hash(key, log_id, seq_num)) for seq_num in range(1, height + 1)]


def conversation(world: World, log_id: int, turns: int) -> None:
    """Two authors answer each other in one document."""
    latest = world.write("ann", log_id)
    for turn in range(turns):
        latest = world.write(NAMES[(turn + 1) % 2], log_id, (latest,))


async def test_authors_that_answer_each_other_are_taken_in_one_session() -> None:
    world = World()
    for log_id in range(4):
        conversation(world, log_id, 9)
    store, node = world.store(), MemoryLogStore()
    ranges = await arrange(DocumentOrder(store, Reader(store)), Someone(), lacking(store, node))
    assert take(store, node, ranges, set())
    assert node.all_log_heights() == store.all_log_heights()


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=60, deadline=None)
async def test_any_documents_are_taken_in_one_session(seed: int, count: int) -> None:
    rng = random.Random(seed)
    world = World()
    documents: list[list[bytes]] = []
    logs: dict[tuple[str, int], int] = {}
    for _ in range(count):
        name = rng.choice(NAMES)
        if not documents or rng.random() < 0.3:
            logs[name, len(documents)] = log_id = len(documents)
            documents.append([world.write(name, log_id)])
            continue
        number = rng.randrange(len(documents))
        log_id = logs.setdefault((name, number), number)
        previous = tuple(rng.sample(documents[number], rng.randint(1, min(3, len(documents[number])))))
        documents[number].append(world.write(name, log_id, previous))
    store, node = world.store(), MemoryLogStore()
    known = world.written[: rng.randrange(len(world.written) + 1)]
    node.append(known)
    plan = lacking(store, node)
    ranges = await arrange(DocumentOrder(store, Reader(store, rng.randint(1, 9))), Someone(), plan)
    assert take(store, node, ranges, set())
    assert node.all_log_heights() == store.all_log_heights()


async def test_a_log_whose_document_became_known_later_goes_with_it() -> None:
    world = World()
    created = world.write("ann", 0)
    answered = world.write("bob", 0, (created,))
    world.write("ann", 0, (answered,))
    store, node = world.store([world.written[1], world.written[0], world.written[2]]), MemoryLogStore()
    assert store.log_info(author("bob").public_key, 0).document_id is None  # type: ignore[union-attr]
    ranges = await arrange(DocumentOrder(store, Reader(store)), Someone(), lacking(store, node))
    assert take(store, node, ranges, set())


async def test_what_a_node_refuses_is_in_the_way_of_nothing_else() -> None:
    world = World()
    for log_id in range(10):
        conversation(world, log_id, 2)
    refused = {world.logs[author("ann").public_key, log_id][0].hash for log_id in (0, 4, 5)}
    refused.add(world.logs[author("bob").public_key, 7][0].hash)
    store, node = world.store(), MemoryLogStore()
    order, link = DocumentOrder(store, Reader(store)), Someone()
    for _ in range(len(refused) + 1):
        take(store, node, await arrange(order, link, lacking(store, node)), refused)
    taken = {key[1]: height for key, height in heights_of(node, "ann").items()}
    assert taken == {0: 0, 4: 0, 5: 0, 7: 1} | dict.fromkeys((1, 2, 3, 6, 8, 9), 2)


def heights_of(node: MemoryLogStore, name: str) -> dict[tuple[bytes, int], int]:
    key = author(name).public_key
    return {(key, log_id): node.height(key, log_id) for log_id in range(10)}


async def test_a_document_that_is_taken_after_all_is_no_longer_last() -> None:
    world = World()
    for log_id in range(3):
        conversation(world, log_id, 1)
    first = world.logs[author("ann").public_key, 0][0].hash
    store, node = world.store(), MemoryLogStore()
    order, link = DocumentOrder(store, Reader(store)), Someone()
    assert not take(store, node, await arrange(order, link, lacking(store, node)), {first})
    assert not take(store, node, await arrange(order, link, lacking(store, node)), {first})
    assert node.height(author("ann").public_key, 2) == 1
    assert take(store, node, await arrange(order, link, lacking(store, node)), set())
    assert node.all_log_heights() == store.all_log_heights()


async def test_a_new_connection_knows_nothing_of_the_one_before() -> None:
    world = World()
    for log_id in range(3):
        conversation(world, log_id, 1)
    store = world.store()
    order = DocumentOrder(store, Reader(store))
    plan = lacking(store, MemoryLogStore())
    assert await arrange(order, Someone(), plan) == await arrange(order, Someone(), plan)


async def test_a_document_too_large_to_arrange_goes_out_log_by_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_order, "MAX_DOCUMENT_ENTRIES", 5)
    world = World()
    conversation(world, 0, 9)
    store = world.store()
    plan = lacking(store, MemoryLogStore())
    assert await arrange(DocumentOrder(store, Reader(store)), Someone(), plan) == plan
