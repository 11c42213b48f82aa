"""Which entries may join the logs that are held, with staged entries counting as held."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from culm_models.bamboo import sign_entry
from culm_models.errors import CulmError
from culm_models.p2panda.ingest import Ingest
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, encode_operation
from culm_models.p2panda.store import MemoryLogStore
from culm_models.testing.p2panda.logs import LogWriter
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

ANNA = author("anna")
BEN = author("ben")

pytestmark = pytest.mark.parametrize("staged", [False, True], ids=["stored", "staged"])


class Gate:
    """An `Ingest` that holds logs either in its store or staged."""

    def __init__(self, staged: bool, *logs: Sequence[CheckedOperation]) -> None:
        self.store = MemoryLogStore()
        self.ingest = Ingest(self.store)
        for log in logs:
            if not staged:
                self.store.append(log)
                continue
            for checked in log:
                assert self.ingest.stage(checked)

    def refusal(self, checked: CheckedOperation) -> str:
        before = self.ingest.staged_count
        with pytest.raises(CulmError) as caught:
            self.ingest.stage(checked)
        assert self.ingest.staged_count == before, "what is refused leaves no trace"
        return caught.value.code


def test_a_whole_log_is_taken_entry_by_entry(staged: bool) -> None:
    log = make_log(ANNA, 7, 45)
    gate = Gate(staged, log[:1])
    assert all(gate.ingest.stage(checked) for checked in log[1:])


def test_what_is_held_is_a_duplicate(staged: bool) -> None:
    log = make_log(ANNA, 0, 14)
    gate = Gate(staged, log)
    assert not any(gate.ingest.stage(checked) for checked in log)


def test_a_gap_is_too_early(staged: bool) -> None:
    log = make_log(ANNA, 0, 5)
    assert Gate(staged, log[:3]).refusal(log[4]) == "bamboo.backlink_unknown"
    assert Gate(staged).refusal(log[1]) == "bamboo.backlink_unknown"


@pytest.mark.parametrize("at", [1, 2, 3])
def test_another_entry_in_the_same_place_is_a_fork(staged: bool, at: int) -> None:
    log = make_log(ANNA, 0, 3)
    other = make_log(ANNA, 0, 1, text="other", after=log[: at - 1])[0]
    gate = Gate(staged, log)
    assert gate.refusal(other) == "bamboo.fork"
    assert gate.ingest.hash_at(*other.log, at) == log[at - 1].hash


def test_an_entry_on_top_of_the_other_branch_has_a_wrong_backlink(staged: bool) -> None:
    log = make_log(ANNA, 0, 3)
    branch = make_log(ANNA, 0, 2, text="other", after=log[:2])
    assert Gate(staged, log).refusal(branch[1]) == "bamboo.backlink_mismatch"


def test_a_skiplink_must_name_the_entry_that_is_held(staged: bool) -> None:
    log = make_log(ANNA, 0, 3)
    liar = LogWriter(ANNA, 0, SCHEMA)
    liar.entries = [make_log(ANNA, 0, 1, text="other")[0], *log[1:]]
    assert Gate(staged, log).refusal(liar.append()) == "bamboo.skiplink_mismatch"


def test_nothing_follows_the_end_of_a_log(staged: bool) -> None:
    writer = LogWriter(ANNA, 0, SCHEMA)
    writer.append()
    writer.append(end_of_log=True)
    gate = Gate(staged, writer.entries)
    assert gate.refusal(writer.append()) == "bamboo.after_end_of_log"


def test_only_the_sessions_schemas_are_taken(staged: bool) -> None:
    log = make_log(ANNA, 0, 2)
    gate = Gate(staged, log[:1])
    with pytest.raises(CulmError) as caught:
        gate.ingest.stage(log[1], frozenset((OTHER_SCHEMA,)))
    assert caught.value.code == "p2panda.session.schema"
    assert gate.ingest.stage(log[1], frozenset((SCHEMA,)))


def test_a_log_keeps_to_its_schema(staged: bool) -> None:
    writer = LogWriter(ANNA, 0, SCHEMA)
    writer.append()
    gate = Gate(staged, writer.entries)
    writer.schema_id = OTHER_SCHEMA
    assert gate.refusal(writer.append()) == "p2panda.log.schema"


def test_a_log_creates_one_document_only(staged: bool) -> None:
    writer = LogWriter(ANNA, 0, SCHEMA)
    writer.append()
    gate = Gate(staged, writer.entries)
    operation = encode_operation("create", SCHEMA, fields={"n": 2})
    entry = sign_entry(ANNA, 0, 2, operation, backlink=writer.entries[0].hash)
    assert gate.refusal(check_entry(entry, operation)) == "bamboo.log_id"


def test_an_author_writes_to_a_document_in_one_log(staged: bool) -> None:
    log = make_log(ANNA, 0, 2)
    elsewhere = LogWriter(ANNA, 1, SCHEMA)
    assert Gate(staged, log).refusal(elsewhere.append(previous=(log[1].hash,))) == "bamboo.log_id"


def test_another_author_writes_to_the_document_in_a_log_of_its_own(staged: bool) -> None:
    log = make_log(ANNA, 0, 2)
    ben = LogWriter(BEN, 5, SCHEMA)
    gate = Gate(staged, log)
    assert gate.ingest.stage(ben.append(previous=(log[1].hash,)))
    assert gate.ingest.stage(ben.append(previous=tuple(sorted((log[0].hash, ben.entries[0].hash)))))
    twice = LogWriter(BEN, 6, SCHEMA)
    assert gate.refusal(twice.append(previous=(log[0].hash,))) == "bamboo.log_id"


def test_an_entry_follows_operations_of_its_own_document_only(staged: bool) -> None:
    anna_log, ben_log = make_log(ANNA, 0, 1), make_log(BEN, 0, 1)
    writer = LogWriter(ANNA, 0, SCHEMA)
    writer.entries = list(anna_log)
    gate = Gate(staged, anna_log, ben_log)
    assert gate.refusal(writer.append(previous=(ben_log[0].hash,))) == "bamboo.log_id"
    third = LogWriter(author("cleo"), 0, SCHEMA)
    both = tuple(sorted((anna_log[0].hash, ben_log[0].hash)))
    assert gate.refusal(third.append(previous=both)) == "bamboo.log_id"


def test_previous_operations_that_are_not_known_are_no_hindrance(staged: bool) -> None:
    log = make_log(ANNA, 0, 2)
    ben = LogWriter(BEN, 0, SCHEMA)
    gate = Gate(staged)
    assert gate.ingest.stage(ben.append(previous=(log[1].hash,)))
    assert gate.ingest.stage(ben.append())


def test_stored_entries_are_staged_no_longer(staged: bool) -> None:
    log = make_log(ANNA, 0, 5)
    gate = Gate(staged, log[:4])
    assert gate.ingest.stage(log[4])
    gate.store.append(log)
    gate.ingest.settle(log)
    assert gate.ingest.staged_count == 0
    assert not gate.ingest.stage(log[4])


def test_what_is_discarded_takes_with_it_what_was_staged_on_top(staged: bool) -> None:
    log = make_log(ANNA, 0, 6)
    gate = Gate(staged, log[:2])
    for checked in log[2:]:
        gate.ingest.stage(checked)
    gate.ingest.discard([log[3]])
    assert gate.refusal(log[5]) == "bamboo.backlink_unknown"
    assert not gate.ingest.stage(log[2])
    assert all(gate.ingest.stage(checked) for checked in log[3:])


def test_a_discarded_first_entry_frees_its_log_and_document(staged: bool) -> None:
    log = make_log(ANNA, 0, 2)
    gate = Gate(staged, make_log(BEN, 0, 1))
    gate.ingest.stage(log[0])
    gate.ingest.discard([log[0]])
    other = LogWriter(ANNA, 1, SCHEMA)
    assert gate.ingest.stage(other.append(previous=(log[0].hash,)))
    assert gate.ingest.stage(make_log(ANNA, 0, 1, text="another")[0])


def test_what_came_into_the_store_by_another_way_is_seen(staged: bool) -> None:
    log = make_log(ANNA, 0, 6)
    gate = Gate(staged, log[:1])
    gate.ingest.stage(log[1])
    gate.store.append(log[:5])
    gate.ingest.settle(log[2:5])
    assert not gate.ingest.stage(log[3])
    assert gate.ingest.stage(log[5])
    gate.store.append(log)
    gate.ingest.settle(log)
    assert gate.ingest.staged_count == 0
