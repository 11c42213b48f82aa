"""One shard's step: logs come out in order, without gaps or repeats, whatever way they came in."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, encode_operation
from culm_streaming.logs.log_table import BLOCKS, EARLY, HISTORY
from culm_streaming.logs.settings import ChainSettings
from culm_topics.records import log_key
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log
from tests.support.p2panda.logs_job import BROUGHT_BY, Shards, arrivals

ALICE, BOB, CAROL = author("alice"), author("bob"), author("carol")
LOGS = [make_log(ALICE, 0, 30), make_log(ALICE, 7, 5), make_log(BOB, 0, 14), make_log(CAROL, 2**64 - 1, 1)]


def hashes(log: list[CheckedOperation]) -> list[bytes]:
    return [checked.hash for checked in log]


def assert_complete(shards: Shards, logs: list[list[CheckedOperation]]) -> None:
    for log in logs:
        written = shards.log(log_key(*log[0].log))
        assert [record.entry_hash for record in written] == hashes(log)
        assert [record.seq_num for record in written] == list(range(1, len(log) + 1))
        assert [record.entry for record in written] == [checked.entry_bytes for checked in log]


@given(
    seed=st.integers(0, 2**32),
    copies=st.integers(1, 3),
    batches=st.integers(1, 9),
    disorder=st.sampled_from([0, 3, 100]),
)
@settings(max_examples=120, deadline=None)
def test_any_order_repetition_and_batching_gives_each_log_in_order_once(
    seed: int, copies: int, batches: int, disorder: int
) -> None:
    chance = random.Random(seed)
    entries = [
        (index + chance.randint(0, disorder), chance.random(), checked)
        for log in LOGS
        for _ in range(copies)
        for index, checked in enumerate(log)
    ]
    entries.sort(key=lambda item: item[:2])
    records = arrivals([checked for _, _, checked in entries])
    cuts = sorted(chance.randrange(len(records) + 1) for _ in range(batches - 1))
    shards = Shards()
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        shards.run(records[start:end], pieces=chance.randint(1, 4))
    assert_complete(shards, LOGS)
    assert shards.rejected == []
    assert all(not store.of(EARLY) for store in shards.stores)


@given(seed=st.integers(0, 2**32), pieces=st.integers(1, 5))
@settings(max_examples=40, deadline=None)
def test_the_same_batch_on_the_same_state_gives_the_same_bytes(seed: int, pieces: int) -> None:
    chance = random.Random(seed)
    fork = make_log(BOB, 0, 5, text="other", after=LOGS[2][:4])
    everything = [checked for log in [*LOGS, fork] for checked in log]
    chance.shuffle(everything)
    records = [*arrivals(everything), (b"", b"junk", 0, 999), (None, None, 0, 1000)]
    shards = Shards()
    shards.run(records[: len(records) // 2])
    again = shards.copy()
    first = shards.run(records[len(records) // 2 :])
    second = again.run(records[len(records) // 2 :], pieces=pieces)
    assert (first.logs, first.rejected) == (second.logs, second.rejected)
    for mine, other in zip(shards.stores, again.stores, strict=True):
        assert mine.values == other.values


def test_a_batch_of_repeats_writes_nothing_and_changes_no_state() -> None:
    shards = Shards()
    shards.run(arrivals([checked for log in LOGS for checked in log]))
    saves = sum(store.saves for store in shards.stores)
    output = shards.run(arrivals([checked for log in LOGS for checked in log], first_offset=500))
    assert output.logs == [] and output.rejected == []
    assert sum(store.saves for store in shards.stores) == saves


def test_a_fork_is_reported_with_both_entries_and_the_first_stays() -> None:
    log = LOGS[2]
    other = make_log(BOB, 0, 1, text="other", after=log[:9])
    shards = Shards()
    shards.run(arrivals([*log[:10], *other, *other]))
    (refusal,) = shards.refusals()
    assert refusal.code == "bamboo.fork"
    assert refusal.entry == other[0].entry_bytes
    assert refusal.operation == other[0].payload_bytes
    assert refusal.first == log[9].entry_bytes
    assert refusal.brought_by == BROUGHT_BY
    assert refusal.source == ("culm.entries", 0, 10)
    assert refusal.seq_num == 10
    assert shards.rejected[0][0] == log_key(*log[0].log)
    assert shards.fetches == 0
    shards.run(arrivals(log[10:], first_offset=20))
    assert_complete(shards, [log])


def test_the_first_entry_of_a_fork_in_an_earlier_batch_is_read_back_from_entries() -> None:
    log = LOGS[2]
    other = make_log(BOB, 0, 2, text="other", after=log[:4])
    shards = Shards()
    shards.run(arrivals(log))
    shards.run(arrivals(other, first_offset=100))
    assert [(refusal.code, refusal.seq_num, refusal.first) for refusal in shards.refusals()] == [
        ("bamboo.fork", 5, log[4].entry_bytes),
        ("bamboo.fork", 6, log[5].entry_bytes),
    ]
    assert shards.fetches == 2


def test_an_expired_first_entry_is_null_and_named_by_its_hash() -> None:
    log = LOGS[2]
    shards = Shards()
    shards.run(arrivals(log))
    shards.topic.clear()
    shards.run(arrivals(make_log(BOB, 0, 1, text="other", after=log[:4]), first_offset=100))
    (refusal,) = shards.refusals()
    assert refusal.first is None
    assert log[4].hash[:10].hex() in refusal.detail


def test_another_entry_at_the_recorded_place_is_no_proof() -> None:
    log = LOGS[2]
    shards = Shards()
    shards.run(arrivals(log))
    shards.topic[0, 4] = shards.topic[0, 3]
    shards.run(arrivals(make_log(BOB, 0, 1, text="other", after=log[:4]), first_offset=100))
    (refusal,) = shards.refusals()
    assert refusal.first is None


def test_read_backs_are_bounded_in_a_batch() -> None:
    log = LOGS[0]
    shards = Shards(ChainSettings(shards=1, blocks=1, max_fetches=3))
    shards.run(arrivals(log))
    forks = [make_log(ALICE, 0, 1, text="other", after=log[:height])[0] for height in range(1, 9)]
    shards.run(arrivals(forks, first_offset=100))
    assert shards.fetches == 3
    assert sum(refusal.first is not None for refusal in shards.refusals()) == 3
    assert len(shards.refusals()) == 8


def test_a_wrong_backlink_is_refused_and_the_right_entry_still_fits() -> None:
    log = LOGS[2]
    stranger = make_log(BOB, 0, 3, text="other")
    shards = Shards()
    shards.run(arrivals([*log[:2], stranger[2], *log[2:]]))
    assert shards.codes() == ["bamboo.backlink_mismatch"]
    assert_complete(shards, [log])


def test_a_wrong_skiplink_is_refused() -> None:
    log = LOGS[2]
    assert needs_skiplink(8) and lipmaa(8) == 4
    operation = log[7].payload_bytes
    wrong = sign_entry(BOB, 0, 8, operation, skiplink=log[2].hash, backlink=log[6].hash)
    for cut in (7, 5):
        shards = Shards()
        shards.run(arrivals(log[:cut]))
        shards.run(arrivals([*log[cut:7], check_entry(wrong, operation)], first_offset=50))
        assert shards.codes() == ["bamboo.skiplink_mismatch"]


def test_an_entry_of_another_schema_is_refused() -> None:
    log = make_log(ALICE, 3, 3)
    stray = make_log(ALICE, 3, 1, schema_id=OTHER_SCHEMA, after=log)
    shards = Shards()
    shards.run(arrivals([*log, *stray]))
    assert shards.codes() == ["p2panda.log.schema"]
    assert_complete(shards, [log])


def ended_log(key_pair: KeyPair) -> list[CheckedOperation]:
    log = make_log(key_pair, 1, 2)
    operation = encode_operation("delete", SCHEMA, previous=(log[-1].hash,))
    end = sign_entry(key_pair, 1, 3, operation, backlink=log[-1].hash, end_of_log=True)
    return [*log, check_entry(end, operation)]


def test_nothing_follows_the_end_of_a_log() -> None:
    ended = ended_log(CAROL)
    beyond = make_log(CAROL, 1, 3, after=ended)
    whole = Shards()
    whole.run(arrivals([*ended, *beyond]))
    apart = Shards()
    apart.run(arrivals(beyond))
    apart.run(arrivals(ended, first_offset=10))
    late = Shards()
    late.run(arrivals(ended))
    late.run(arrivals(beyond, first_offset=10))
    for shards in (whole, apart, late):
        assert shards.codes() == ["bamboo.after_end_of_log"] * 3
        assert_complete(shards, [ended])
        assert all(not store.of(EARLY) for store in shards.stores)


def test_early_arrivals_beyond_the_bound_of_their_log_are_refused_never_dropped() -> None:
    log = LOGS[0]
    shards = Shards(ChainSettings(shards=1, blocks=1, max_early_per_log=4))
    shards.run(arrivals(log[5:15]))
    assert shards.codes() == ["logs.early_overflow"] * 6
    assert [refusal.seq_num for refusal in shards.refusals()] == [10, 11, 12, 13, 14, 15]
    shards.run(arrivals(log[:5], first_offset=50))
    assert_complete(shards, [log[:9]])


def test_early_arrivals_are_bounded_in_bytes_by_log_and_by_shard() -> None:
    for bounds in (
        ChainSettings(shards=1, blocks=1, max_early_bytes_per_log=2000),
        ChainSettings(shards=1, blocks=1, max_early_bytes_per_shard=2000),
        ChainSettings(shards=1, blocks=1, max_early_per_shard=3),
    ):
        shards = Shards(bounds)
        shards.run(arrivals([*LOGS[0][1:15], *LOGS[2][3:9]]))
        early_bytes = sum(len(blob) for blob in shards.stores[0].of(EARLY).values())
        assert 0 < early_bytes < 4100
        assert 0 < len(shards.refusals()) < 20
        assert set(shards.codes()) == {"logs.early_overflow"}


def test_room_for_early_arrivals_comes_back_when_they_fit() -> None:
    shards = Shards(ChainSettings(shards=1, blocks=1, max_early_per_shard=5))
    for round_number in range(4):
        log = make_log(ALICE, 100 + round_number, 6)
        shards.run(arrivals(log[1:], first_offset=round_number * 10))
        shards.run(arrivals(log[:1], first_offset=round_number * 10 + 6))
        assert_complete(shards, [log])
    assert shards.rejected == []


def test_an_early_fork_is_decided_by_who_came_first() -> None:
    log = LOGS[2]
    other = make_log(BOB, 0, 1, text="other", after=log[:4])
    shards = Shards()
    shards.run(arrivals([other[0], log[4], *log[:3]]))
    shards.run(arrivals([log[3]], first_offset=20))
    (refusal,) = shards.refusals()
    assert (refusal.code, refusal.entry, refusal.first) == (
        "bamboo.fork",
        log[4].entry_bytes,
        other[0].entry_bytes,
    )


def test_a_log_longer_than_a_chunk_of_history_tells_repeats_from_forks() -> None:
    log = make_log(ALICE, 9, 1100)
    shards = Shards(ChainSettings(shards=1, blocks=1))
    for start in range(0, len(log), 333):
        shards.run(arrivals(log[start : start + 333], first_offset=start))
    assert_complete(shards, [log])
    store = shards.stores[0]
    assert len(store.of(HISTORY)) == 4
    assert len(store.of(BLOCKS)[0]) < 5000
    shards.run(arrivals(log, first_offset=5000))
    assert_complete(shards, [log])
    forks = [
        make_log(ALICE, 9, 1, text="other", after=log[:height])[0] for height in (3, 255, 256, 257, 1090)
    ]
    shards.run(arrivals(forks, first_offset=9000))
    assert [(refusal.seq_num, refusal.first) for refusal in shards.refusals()] == [
        (height + 1, log[height].entry_bytes) for height in (3, 255, 256, 257, 1090)
    ]


def test_a_full_block_takes_no_new_log_and_goes_on_with_the_others() -> None:
    shards = Shards(ChainSettings(shards=1, blocks=1, max_logs_per_block=2))
    shards.run(arrivals([LOGS[0][0], LOGS[1][0]]))
    shards.run(arrivals([*LOGS[0][1:], *LOGS[2]], first_offset=20))
    assert_complete(shards, [LOGS[0], LOGS[1][:1]])
    assert set(shards.codes()) == {"logs.block_full"}


def test_a_refused_new_log_leaves_no_state() -> None:
    other = make_log(BOB, 0, 2, text="other")
    operation = other[1].payload_bytes
    entry = sign_entry(BOB, 0, 2, operation, backlink=other[0].hash)
    shards = Shards(ChainSettings(shards=1, blocks=1, max_early_per_log=1, max_early_bytes_per_log=1))
    shards.run(arrivals([check_entry(entry, operation)]))
    assert shards.codes() == ["logs.early_overflow"]
    assert all(len(blob) < 16 for blob in shards.stores[0].of(BLOCKS).values())
