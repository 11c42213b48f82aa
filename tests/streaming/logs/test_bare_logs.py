"""Bare logs in the job `logs`: Bamboo's rules alone, either flavour, payloads inline or elsewhere."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_streaming.logs.log_table import EARLY
from culm_streaming.logs.packing import pack_records
from culm_streaming.logs.rows import unpack_rows
from culm_streaming.logs.settings import ChainSettings
from culm_topics.logs.records import EntryRecord
from culm_topics.records import RejectedRecord, log_key, split_flavoured_log_key
from tests.support.bamboo.bare_logs import BareLogEntry, make_bare_log, texts
from tests.support.p2panda.logs import author, make_log
from tests.support.p2panda.logs_job import BROUGHT_BY, Arrival, Shards, arrivals

ALICE, BOB = author("alice"), author("bob")
BOTH = pytest.mark.parametrize("flavour", [YAMF, YASMF], ids=lambda flavour: flavour.name)
# One author's logs of one number in both flavours: they are two logs.
LOGS = [make_bare_log(ALICE, 0, texts(30), flavour=flavour) for flavour in (YAMF, YASMF)]
PANDA = make_log(BOB, 0, 9)


def bare_arrivals(log: list[BareLogEntry], first_offset: int = 0) -> list[Arrival]:
    return [entry.arrival(first_offset + number) for number, entry in enumerate(log)]


def stated_bare(checked: CheckedOperation, offset: int) -> Arrival:
    value = EntryRecord(checked.entry_bytes, checked.payload_bytes, "", BROUGHT_BY, 7, b"connector").encode()
    return log_key(*checked.log), value, 0, offset


def assert_log(shards: Shards, log: list[BareLogEntry]) -> None:
    written = shards.log(log[0].key)
    assert written == [entry.log_record() for entry in log]


@given(seed=st.integers(0, 2**32), batches=st.integers(1, 7), disorder=st.sampled_from([0, 3, 100]))
@settings(max_examples=60, deadline=None)
def test_any_order_and_batching_gives_each_bare_log_in_order_beside_the_others(
    seed: int, batches: int, disorder: int
) -> None:
    chance = random.Random(seed)
    arrivals_and_places = [
        (log[number].arrival, number) for log in LOGS for number in range(len(log)) for _ in range(2)
    ]
    order = sorted(
        arrivals_and_places, key=lambda arrival: arrival[1] + chance.randint(0, disorder) + chance.random()
    )
    records = [arrival(offset) for offset, (arrival, _) in enumerate(order)]
    records += arrivals(PANDA, first_offset=len(records))
    cuts = sorted(chance.randrange(len(records) + 1) for _ in range(batches - 1))
    shards = Shards()
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        shards.run(records[start:end], pieces=chance.randint(1, 3))
    for log in LOGS:
        assert_log(shards, log)
    assert [record.entry_hash for record in shards.log(log_key(*PANDA[0].log))] == [e.hash for e in PANDA]
    assert shards.rejected == []


@BOTH
def test_a_payload_may_be_elsewhere_and_what_is_inline_must_be_the_right_one(flavour: HashFlavour) -> None:
    log = make_bare_log(ALICE, 3, texts(3), flavour=flavour)
    key, value, _, offset = log[2].arrival(3)
    assert value is not None
    wrong = key, value.replace(log[2].payload, b"joint 4"), 0, offset
    shards = Shards()
    shards.run([log[0].arrival(0), log[1].arrival(1, inline=False), wrong])
    assert shards.log(log[0].key) == [log[0].log_record(), log[1].log_record(inline=False)]
    assert shards.codes() == ["bamboo.payload_hash"]


@BOTH
@pytest.mark.parametrize("first_inline", [True, False])
@pytest.mark.parametrize("cut", [1, 2])
def test_an_entry_with_and_without_its_payload_is_one_and_the_first_stays(
    flavour: HashFlavour, first_inline: bool, cut: int
) -> None:
    (entry,) = make_bare_log(ALICE, 3, texts(1), flavour=flavour)
    records = [entry.arrival(0, inline=first_inline), entry.arrival(1, inline=not first_inline)]
    shards = Shards()
    shards.run(records[:cut])
    shards.run(records[cut:])
    assert shards.log(entry.key) == [entry.log_record(inline=first_inline)]
    assert shards.rejected == []


@BOTH
def test_signatures_are_checked(flavour: HashFlavour) -> None:
    (entry,) = make_bare_log(ALICE, 3, texts(1), flavour=flavour)
    key, value, _, _ = entry.arrival(0)
    assert value is not None
    forged = entry.entry_bytes[:-1] + bytes([entry.entry_bytes[-1] ^ 1])
    record = key, value.replace(entry.entry_bytes, forged), 0, 0
    for verify_signature, code in ((False, None), (True, "bamboo.signature")):
        (packed,) = pack_records([record], ChainSettings(), verify_signature=verify_signature)
        (row,) = unpack_rows([(packed.heads, packed.sizes, packed.values)]).values
        assert (RejectedRecord.decode(row).code if code else None) == code


@BOTH
def test_a_fork_of_a_bare_log_is_told_with_both_entries_and_its_own_key(flavour: HashFlavour) -> None:
    log = make_bare_log(BOB, 1, texts(6), flavour=flavour)
    (now,) = make_bare_log(BOB, 1, [b"other"], flavour=flavour, after=log[:5])
    (later,) = make_bare_log(BOB, 1, [b"other"], flavour=flavour, after=log[:3])
    shards = Shards()
    shards.run([*bare_arrivals(log), now.arrival(10)])
    shards.run([later.arrival(11)])
    assert shards.codes() == ["bamboo.fork"] * 2
    assert [(refusal.entry, refusal.first) for refusal in shards.refusals()] == [
        (now.entry_bytes, log[5].entry_bytes),
        (later.entry_bytes, log[3].entry_bytes),
    ]
    assert [key for key, _ in shards.rejected] == [log[0].key] * 2
    assert_log(shards, log)


@BOTH
def test_nothing_follows_the_end_of_a_bare_log(flavour: HashFlavour) -> None:
    log = make_bare_log(BOB, 1, texts(5), flavour=flavour, ends=True)
    beyond = make_bare_log(BOB, 1, texts(2), flavour=flavour, after=log)
    shards = Shards()
    shards.run([*bare_arrivals(beyond, 50), *bare_arrivals(log)])
    assert shards.codes() == ["bamboo.after_end_of_log"] * 2
    assert_log(shards, log)


@BOTH
def test_early_arrivals_wait_for_their_predecessors_and_wrong_links_are_refused(flavour: HashFlavour) -> None:
    log = make_bare_log(BOB, 1, texts(14), flavour=flavour)
    stranger = make_bare_log(BOB, 1, texts(9, "other"), flavour=flavour)
    shards = Shards()
    shards.run(bare_arrivals(log[4:], 100))
    shards.run([*bare_arrivals(log[:3]), stranger[3].arrival(10), log[3].arrival(11)])
    assert shards.codes() == ["bamboo.backlink_mismatch"]
    assert_log(shards, log)
    assert all(not store.of(EARLY) for store in shards.stores)


@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_log_keeps_the_kind_of_its_first_entry(cut: int) -> None:
    bare = make_bare_log(ALICE, 2, texts(2), flavour=YASMF)
    (odd,) = make_bare_log(ALICE, 2, [PANDA[3].payload_bytes], flavour=YASMF, after=bare)
    of_panda = arrivals(PANDA[:2])
    for records, key in (
        ([*bare_arrivals(bare), odd.arrival(3, schema_id=PANDA[0].schema_id)], odd.key),
        ([*of_panda, stated_bare(PANDA[2], offset=3)], log_key(*PANDA[0].log)),
    ):
        shards = Shards()
        shards.run(records[:cut])
        shards.run(records[cut:])
        assert shards.codes() == ["p2panda.log.schema"]
        assert len(shards.log(key)) == 2


def test_a_log_whose_first_payload_is_an_operation_is_one_of_p2panda_whatever_is_stated() -> None:
    shards = Shards()
    shards.run([stated_bare(PANDA[0], offset=0), *arrivals(PANDA[1:], first_offset=1)])
    assert [record.schema_id for record in shards.log(log_key(*PANDA[0].log))] == [PANDA[0].schema_id] * len(
        PANDA
    )
    assert shards.rejected == []


def test_a_record_under_the_key_of_another_flavour_or_log_is_refused_under_that_key() -> None:
    yamf, yasmf = LOGS[0][0], LOGS[1][0]
    _, value, _, _ = yamf.arrival(0)
    other = make_bare_log(BOB, 5, texts(1))[0]
    shards = Shards()
    shards.run([(yasmf.key, value, 0, 0), (other.key, value, 0, 1), (yamf.key + b"\0", value, 0, 2)])
    assert len(shards.codes()) == 3 and shards.logs == []
    assert sorted(key for key, _ in shards.rejected) == sorted([yasmf.key, other.key, b""])
    assert split_flavoured_log_key(other.key)[0] is YAMF
