"""Logs that are taken out of the index, and records of it that contradict each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.logs.index import LmdbLogStore, layout
from culm_models.p2panda.operations.operation import peek
from tests.support.logs import OTHER_SCHEMA, SCHEMA, author, make_log


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path)
    yield opened
    opened.close()


LOGS = [
    make_log(author("a"), 0, 5),
    make_log(author("a"), 1, 3, schema_id=OTHER_SCHEMA),
    make_log(author("b"), 0, 1),
]
KEYS = [layout.log_key(*log[0].log) for log in LOGS]


def fill(store: LmdbLogStore) -> None:
    for log in LOGS:
        store.append(log)


def contents(store: LmdbLogStore) -> dict[bytes, dict[bytes, bytes]]:
    with store._environment.read() as transaction:
        held = {name: dict(transaction.cursor(db=database)) for name, database in store._databases.items()}
    # The revision that brought an operation is another one each time.
    held[b"operations"] = {key: place[: -layout.U64.size] for key, place in held[b"operations"].items()}
    return held


def test_a_forgotten_log_leaves_nothing_and_can_be_stored_again(store: LmdbLogStore, tmp_path: Path) -> None:
    store.append(LOGS[1])
    without = contents(store)
    store.append(LOGS[0])
    whole = contents(store)
    store.adopt(store.forget([KEYS[0]]))
    assert contents(store) | {b"schemas": {}} == without | {b"schemas": {}}
    assert store.height(*LOGS[0][0].log) == 0
    assert store.log_info(*LOGS[0][0].log) is None
    assert list(store.log_heights([SCHEMA])) == []
    store.append(LOGS[0])
    assert contents(store) == whole


def delete(database: bytes, key: bytes) -> Callable[[LmdbLogStore, Any], None]:
    return lambda store, transaction: transaction.delete(key, db=store._databases[database])


def put(database: bytes, key: bytes, value: bytes) -> Callable[[LmdbLogStore, Any], None]:
    return lambda store, transaction: transaction.put(key, value, db=store._databases[database])


def test_a_whole_index_contradicts_itself_nowhere(store: LmdbLogStore) -> None:
    fill(store)
    assert store.contradictions() == {}


@pytest.mark.parametrize(
    "damage",
    [
        delete(b"entries", KEYS[0] + layout.U64.pack(1)),
        delete(b"entries", KEYS[0] + layout.U64.pack(3)),
        delete(b"entries", KEYS[0] + layout.U64.pack(5)),
        delete(b"logs", KEYS[0]),
        delete(b"sync_range", layout.U32.pack(0) + KEYS[0]),
        put(b"sync_range", layout.U32.pack(0) + KEYS[0], layout.U64.pack(4)),
        put(b"logs", KEYS[0], b"none of ours"),
        put(b"entries", KEYS[0] + layout.U64.pack(9), layout.pack_entry(b"e", b"o")),
    ],
)
def test_a_log_that_contradicts_itself_is_found_and_forgotten(
    store: LmdbLogStore, damage: Callable[[LmdbLogStore, Any], None]
) -> None:
    fill(store)
    store._environment.write(lambda transaction: damage(store, transaction))
    assert set(store.contradictions()) == {KEYS[0]}
    store.adopt(store.forget([KEYS[0]]))
    assert store.contradictions() == {}
    assert store.counts() == (2, 4)
    store.append(LOGS[0])
    assert store.contradictions() == {}
    assert [list(store.entries(*log[0].log, 1, 9)) for log in LOGS] == [
        [(one.entry_bytes, one.payload_bytes) for one in log] for log in LOGS
    ]
