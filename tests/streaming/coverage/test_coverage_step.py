"""What is held of each log, and what that proves: whatever the order, the repeats and the batches were."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_streaming.coverage.settings import CoverageLayout
from culm_streaming.coverage.state import BLOCKS, FRAGMENTS, PEERS
from culm_streaming.errors import JobSettingsError, StateLayoutError, StateMissingError
from culm_topics.logs.records import CoverageRecord, HoldingRecord
from culm_topics.records import HEIGHTS_PEER_ID, RejectedRecord
from tests.support.bamboo.bare_logs import BareLogEntry, make_bare_log, texts
from tests.support.p2panda.coverage_job import (
    CoverageWorld,
    Said,
    in_fragments,
    in_holdings,
    in_logs,
    in_payloads,
)
from tests.support.p2panda.logs import author

ALICE, BOB = author("alice"), author("bob")
LARGE = bytes(range(256)) * 4_500
"""Three chunks."""
# One author's logs of one number in both flavours; of the first one some payloads are large, and alike.
YAMF_LOG = make_bare_log(ALICE, 0, [LARGE if n in (3, 20, 30) else b"joint %d" % n for n in range(1, 41)])
YASMF_LOG = make_bare_log(ALICE, 0, [b"" if n == 2 else b"joint %d" % n for n in range(1, 15)], flavour=YASMF)
PEER, OTHER = b"p" * 32, b"o" * 32


def pool(number: int, log: list[BareLogEntry]) -> list[BareLogEntry]:
    return [
        log[needed - 1] for needed in sorted({*lower_pool(number), *upper_pool(number)}) if needed <= len(log)
    ]


def everything() -> list[Said]:
    """A prefix of one log, fragments of it in two places, another log whole, large payloads, two peers."""
    parts = [
        in_logs(YAMF_LOG[:9], inline=False),
        in_fragments([*pool(30, YAMF_LOG), *YAMF_LOG[18:24]]),
        in_logs(YASMF_LOG),
        *(in_payloads(YAMF_LOG[number - 1]) for number in (1, 3, 22)),
        [in_holdings(PEER, YAMF_LOG[0].key, ((1, 10), (20, 24)), ((2, 4),))],
        [in_holdings(PEER, YAMF_LOG[0].key, ((10, 12),), ((4, 6),))],
        [in_holdings(OTHER, YASMF_LOG[0].key, ((7, 8),))],
    ]
    return [record for part in parts for record in part]


def wanted_of_yamf() -> CoverageRecord:
    numbers = {*range(1, 10), *(entry.seq_num for entry in pool(30, YAMF_LOG)), *range(19, 25)}
    large = {3, 20, 30} & numbers
    proven = {
        number
        for number in numbers
        if all(
            needed > max(numbers) or needed in numbers
            for needed in (*lower_pool(number), *upper_pool(number))
        )
    }
    return CoverageRecord(runs(numbers), runs({1, 22} & numbers | large), runs(proven))


def runs(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    starts = sorted(number for number in numbers if number - 1 not in numbers)
    ends = sorted(number + 1 for number in numbers if number + 1 not in numbers)
    return tuple(zip(starts, ends, strict=True))


def assert_everything(world: CoverageWorld) -> None:
    assert world.of(YAMF_LOG[0].key) == wanted_of_yamf()
    whole = ((1, 15),)
    assert world.of(YASMF_LOG[0].key) == CoverageRecord(whole, whole, whole)
    assert world.of(YAMF_LOG[0].key, PEER) == CoverageRecord(((1, 12), (20, 24)), ((2, 6),), ())
    assert world.of(YASMF_LOG[0].key, OTHER) == CoverageRecord(((7, 8),), (), ())
    assert len(world.coverage) == 4
    assert world.rejected == []


@given(seed=st.integers(0, 2**32), copies=st.integers(1, 2), batches=st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_any_order_repetition_and_batching_ends_in_the_same_coverage(
    seed: int, copies: int, batches: int
) -> None:
    chance = random.Random(seed)
    records = everything() * copies
    chance.shuffle(records)
    cuts = sorted(chance.randrange(len(records) + 1) for _ in range(batches - 1))
    world = CoverageWorld()
    for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
        world.run(records[start:end], pieces=chance.randint(1, 3))
    assert_everything(world)


def test_a_batch_of_repeats_writes_nothing_and_changes_no_state() -> None:
    world = CoverageWorld()
    world.run(everything())
    saves = world.saves()
    assert world.run(everything()).coverage == []
    assert world.saves() == saves


@given(seed=st.integers(0, 2**32), pieces=st.integers(1, 4))
@settings(max_examples=20, deadline=None)
def test_the_same_batch_on_the_same_state_gives_the_same_bytes(seed: int, pieces: int) -> None:
    chance = random.Random(seed)
    records = [*everything(), Said("fragments", b"k", b"junk"), Said("holdings", PEER, b"junk", 0, 7)]
    chance.shuffle(records)
    left, right = CoverageWorld(), CoverageWorld()
    for world in (left, right):
        world.run(records[:20])
    first, second = left.run(records[20:]), right.run(records[20:], pieces=pieces)
    assert (first.coverage, sorted(first.rejected)) == (second.coverage, sorted(second.rejected))
    for mine, its in zip(left.stores, right.stores, strict=True):
        assert mine.values == its.values


def test_fragments_join_when_the_log_reaches_them() -> None:
    world = CoverageWorld()
    world.run(in_fragments(YAMF_LOG[20:]))
    record = world.of(YAMF_LOG[0].key)
    assert record is not None and (record.entries, record.provable) == (((21, 41),), ())
    world.run(in_logs(YAMF_LOG))
    record = world.of(YAMF_LOG[0].key)
    assert record is not None and record.entries == record.provable == record.payloads == ((1, 41),)
    assert all(not store.of(FRAGMENTS) for store in world.stores)


def test_only_what_changed_is_written() -> None:
    world = CoverageWorld()
    world.run([*in_logs(YAMF_LOG[:5]), *in_logs(YASMF_LOG)])
    output = world.run([*in_logs(YAMF_LOG[:6]), *in_logs(YASMF_LOG)])
    assert [key for key, _ in output.coverage] == [HEIGHTS_PEER_ID + YAMF_LOG[0].key]


def test_a_link_to_another_branch_proves_nothing() -> None:
    branch = make_bare_log(ALICE, 0, texts(4, "other"), after=YAMF_LOG[:13])
    world = CoverageWorld()
    world.run([*in_logs(YAMF_LOG[:14]), *in_fragments(branch[1:])])
    record = world.of(YAMF_LOG[0].key)
    assert record is not None and record.entries == ((1, 18),)
    assert not any(start <= 15 < end for start, end in record.provable)


def test_of_two_entries_for_one_number_the_same_one_counts_in_any_order() -> None:
    branch = make_bare_log(ALICE, 0, texts(1, "other"), after=YAMF_LOG[:13])
    coverages = []
    for order in ((branch, YAMF_LOG[13:]), (YAMF_LOG[13:], branch)):
        world = CoverageWorld()
        for part in order:
            world.run(in_fragments([*part, *YAMF_LOG[:13]]))
        coverages.append(world.of(YAMF_LOG[0].key))
    assert coverages[0] == coverages[1]


def test_what_a_peer_drops_is_gone_until_it_says_so_again() -> None:
    world, key = CoverageWorld(), YAMF_LOG[0].key
    inputs = [
        in_holdings(PEER, key, ((1, 9),), ((1, 9),)),
        in_holdings(PEER, key, dropped=((3, 5),)),
        in_holdings(PEER, key, payloads=((4, 5),)),
    ]
    world.run([record._replace(offset=offset) for offset, record in reversed(list(enumerate(inputs)))])
    assert world.of(key, PEER) == CoverageRecord(((1, 9),), ((1, 3), (4, 9)), ())


def test_a_forged_fragment_or_one_under_another_key_is_told_and_not_counted() -> None:
    entry, other = YAMF_LOG[4], YAMF_LOG[5]
    key, value = entry.fragment()
    forged = entry.entry_bytes[:-1] + bytes([entry.entry_bytes[-1] ^ 1])
    world = CoverageWorld()
    world.run(
        [
            Said("fragments", key, value.replace(entry.entry_bytes, forged), 0, 1),
            Said(
                "fragments",
                key,
                value.replace(entry.entry_bytes, forged).replace(entry.hash, YAMF.hash(forged)),
                0,
                2,
            ),
            Said("fragments", other.fragment()[0], value, 0, 3),
            Said("fragments", b"short", value, 0, 4),
            Said("fragments", key, None, 0, 5),
            Said("holdings", HEIGHTS_PEER_ID, HoldingRecord(entry.key, ((1, 2),)).encode(), 0, 6),
            Said("payloads", entry.entry.payload_hash + bytes(4), b"\x84\x01junk", 0, 7),
            Said("payloads", entry.entry.payload_hash + bytes(4), None, 0, 8),
            Said("logs", entry.key, b"junk", 0, 9),
            Said("logs", YASMF_LOG[0].key, b"junk", 0, 10),
        ]
    )
    assert world.coverage == {}
    assert world.codes() == ["bamboo.signature", *["topics.record"] * 6]
    sources = [RejectedRecord.decode(value).source for _, value in world.rejected]
    assert sorted(source[2] for source in sources if source) == [1, 2, 3, 4, 6, 7, 9]
    assert {key for key, _ in world.rejected} <= {entry.key, b""}


def test_a_peer_has_so_many_rows_and_pieces_and_more_is_told() -> None:
    layout = CoverageLayout(shards=1, blocks=1, max_rows_per_peer=3, max_runs=4)
    world = CoverageWorld(layout)
    keys = [make_bare_log(BOB, number, texts(1))[0].key for number in range(5)]
    world.run([in_holdings(PEER, key, ((1, 2),))._replace(offset=offset) for offset, key in enumerate(keys)])
    assert len(world.coverage) == 3 and world.codes() == ["coverage.full"] * 2
    assert {RejectedRecord.decode(value).brought_by for _, value in world.rejected} == {PEER}
    world.run([in_holdings(OTHER, keys[4], ((1, 2),))])
    world.run([in_holdings(PEER, keys[0], tuple((n, n + 1) for n in range(3, 12, 2)))._replace(offset=9)])
    assert len(world.coverage) == 4 and world.codes() == ["coverage.full"] * 3
    world.run([in_holdings(PEER, keys[0], ((2, 9),))._replace(offset=10)])
    assert world.of(keys[0], PEER) == CoverageRecord(((1, 9),), (), ())
    assert world.stores[0].of(PEERS) == {PEER: 3, OTHER: 1}


def test_what_has_no_room_is_counted_as_held_where_it_can_be_and_told_where_not() -> None:
    world = CoverageWorld(CoverageLayout(shards=1, blocks=1, max_fragments_per_log=6))
    world.run(in_fragments(reversed(YAMF_LOG[:20])))
    record = world.of(YAMF_LOG[0].key)
    assert record is not None and record.entries == ((1, 21),)
    assert all(end <= 7 for _, end in record.provable) and world.rejected == []
    tight = CoverageWorld(CoverageLayout(shards=1, blocks=1, max_rows_per_block=1, max_runs=1))
    tight.run([*in_fragments([YAMF_LOG[0], YAMF_LOG[2], YAMF_LOG[4], YAMF_LOG[1]])])
    tight.run([*in_logs(YASMF_LOG), *in_fragments(YASMF_LOG[:1])])
    assert tight.codes() == ["coverage.full"] * 3
    first = tight.of(YAMF_LOG[0].key)
    assert first is not None and first.entries == ((1, 4),)


def test_payloads_that_wait_and_are_waited_for_are_bounded() -> None:
    layout = CoverageLayout(shards=1, blocks=1, max_payloads_per_block=2, max_waiting_per_payload=2)
    same = make_bare_log(BOB, 1, [b"the same"] * 4)
    world = CoverageWorld(layout)
    world.run(in_logs(same, inline=False))
    assert world.codes() == ["coverage.full"] * 2
    world.run(in_payloads(same[0]))
    record = world.of(same[0].key)
    assert record is not None and record.payloads == ((1, 3),)
    world.run(in_logs(same, inline=False))
    record = world.of(same[0].key)
    assert record is not None and record.payloads == ((1, 5),)
    others = make_bare_log(BOB, 2, texts(3))
    world.run([chunk for entry in others for chunk in in_payloads(entry)])
    assert world.codes() == ["coverage.full"] * 4


def test_a_checkpoint_of_another_layout_or_format_is_refused() -> None:
    world = CoverageWorld(CoverageLayout(shards=1, blocks=2))
    world.run(everything())
    world.layout = CoverageLayout(shards=1, blocks=3)
    with pytest.raises(StateLayoutError, match="1 shards of 2 blocks"):
        world.run(everything())
    world.layout = CoverageLayout(shards=1, blocks=2)
    for log in world.stores[0].of(FRAGMENTS):
        world.stores[0].save(FRAGMENTS, log, None)
    with pytest.raises(StateMissingError):
        world.run(in_fragments(YAMF_LOG[30:]))
    for number, blob in world.stores[0].of(BLOCKS).items():
        world.stores[0].save(BLOCKS, number, b"\x09" + blob[1:])
    with pytest.raises(StateLayoutError, match="format 9"):
        world.run(in_logs(YAMF_LOG))
    with pytest.raises(JobSettingsError):
        CoverageLayout(shards=0)
