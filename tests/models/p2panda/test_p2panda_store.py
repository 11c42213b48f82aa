"""The store in memory: what `LogStore` promises."""

from __future__ import annotations

import pytest

from culm_models.bamboo.log_store import LogInfo
from culm_models.p2panda.store import LogStore, MemoryLogStore
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log, pairs

ANNA = author("anna")
BEN = author("ben")


def test_an_empty_store_knows_nothing() -> None:
    store: LogStore = MemoryLogStore()
    key = ANNA.public_key
    assert store.height(key, 0) == 0
    assert store.entry_hash(key, 0, 1) is None
    assert list(store.log_heights([SCHEMA])) == []
    assert list(store.entries(key, 0, 1, 5)) == []
    assert store.log_info(key, 0) is None
    assert store.document_of(bytes(34)) is None
    assert store.log_of(key, bytes(34)) is None


def test_logs_heights_and_documents() -> None:
    store = MemoryLogStore()
    log = make_log(ANNA, 3, 4)
    store.append(log)
    assert store.height(*log[0].log) == 4
    assert [store.entry_hash(*log[0].log, number) for number in range(6)] == [
        None,
        *(checked.hash for checked in log),
        None,
    ]
    assert store.log_info(*log[0].log) == LogInfo(SCHEMA, log[0].hash, None)
    assert {store.document_of(checked.hash) for checked in log} == {log[0].hash}
    assert store.log_of(ANNA.public_key, log[0].hash) == 3
    assert store.log_of(BEN.public_key, log[0].hash) is None


def test_parts_of_a_log_end_where_it_does() -> None:
    store = MemoryLogStore()
    log = make_log(ANNA, 0, 4)
    store.append(log)
    assert list(store.entries(*log[0].log, 2, 3)) == pairs(log)[1:3]
    assert list(store.entries(*log[0].log, 3, 99)) == pairs(log)[2:]
    assert list(store.entries(*log[0].log, 5, 9)) == []


def test_heights_are_sorted_and_of_the_schemas_asked_for() -> None:
    store = MemoryLogStore()
    for key_pair in (ANNA, BEN):
        for log_id in (300, 2):
            store.append(make_log(key_pair, log_id, 1))
    store.append(make_log(ANNA, 5, 2, schema_id=OTHER_SCHEMA))
    keys = sorted((ANNA.public_key, BEN.public_key))
    assert store.log_heights([SCHEMA, SCHEMA]) == [(key, log_id, 1) for key in keys for log_id in (2, 300)]
    assert store.log_heights([OTHER_SCHEMA]) == [(ANNA.public_key, 5, 2)]
    assert len(store.all_log_heights()) == 5


def test_a_log_in_another_authors_document() -> None:
    store = MemoryLogStore()
    log = make_log(ANNA, 0, 2)
    ben = LogWriter(BEN, 9, SCHEMA)
    ben.append(previous=(log[1].hash,))
    store.append([*log, *ben.entries])
    assert store.document_of(ben.entries[0].hash) == log[0].hash
    assert store.log_of(BEN.public_key, log[0].hash) == 9


def test_the_end_of_a_log_is_known() -> None:
    store = MemoryLogStore()
    writer = LogWriter(ANNA, 0, SCHEMA)
    writer.append()
    writer.append(end_of_log=True)
    store.append(writer.entries)
    info = store.log_info(ANNA.public_key, 0)
    assert info is not None and info.end_of_log == 2


@pytest.mark.assertions
def test_what_is_held_is_passed_over_and_nothing_else_is() -> None:
    store = MemoryLogStore()
    log = make_log(ANNA, 0, 4)
    store.append(log[:2])
    store.append(log[:3])
    assert store.height(*log[0].log) == 3
    with pytest.raises(AssertionError):
        store.append(make_log(ANNA, 0, 1, text="other", after=log[:1]))
    with pytest.raises(AssertionError):
        store.append(make_log(BEN, 0, 2)[1:])
