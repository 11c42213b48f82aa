"""How the state of SDS channels is laid out: rows, journals, the calendar, copies in memory."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from culm_models.sds.channel_state import ENTRY_BYTES
from culm_models.sds.settings import SdsSettings
from culm_streaming.sds import state as states
from culm_streaming.sds.record import Cache, Copy, StoredJournal, append_segment, replace_journal, segments
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import BucketedState, DueCalendar, StateKind
from culm_streaming.sds.step import Row, Source, in_order
from culm_streaming.stateful.job_state import MemoryState, Variable
from tests.support.hostile.sds import big_filter_joins
from tests.support.sds.shards import SMALL, Shard, content, events, peer, refusals

SMALL_CHUNKS = ChannelsSettings(shards=1, tail_bytes=20, chunk_bytes=50, compact_bytes=200)
optional = st.one_of(st.none(), st.binary(max_size=9))


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from(Source), st.integers(0, 2), optional, optional),
        max_size=30,
    ),
    st.randoms(use_true_random=False),
)
def test_rows_are_taken_in_one_order_however_they_come(
    parts: list[tuple[int, Source, int, bytes | None, bytes | None]], chance: random.Random
) -> None:
    rows = [
        Row(time, source, partition, at, *pair) for at, (time, source, partition, *pair) in enumerate(parts)
    ]
    ordered = in_order(rows)
    assert [row[:4] for row in ordered] == sorted(row[:4] for row in rows)
    chance.shuffle(rows)
    assert in_order(rows) == ordered


@given(st.lists(st.one_of(st.binary(max_size=60), st.just(None)), max_size=25))
def test_a_journal_gives_what_came_after_any_of_its_marks(steps: list[bytes | None]) -> None:
    """None: the journal is written anew."""
    state, kept = MemoryState(), StoredJournal()
    written: list[tuple[int, bytes]] = []
    for mark, data in enumerate(steps, 1):
        if data is None:
            whole = b"".join(part for _, part in written)[:150]
            replace_journal(state, b"c", kept, mark, whole, SMALL_CHUNKS)
            written = [(mark, whole)]
        else:
            append_segment(state, b"c", kept, mark, data, SMALL_CHUNKS)
            written.append((mark, data))
        kept = StoredJournal.unpack(kept.pack())
    marks = [-1, *(mark for mark, _ in written)]
    for since in marks:
        expected = [data for mark, data in written if mark > since]
        assert list(segments(state, b"c", kept, since)) == expected
    assert len(state.values) == len(kept.ends), "no chunk is left over"


def test_most_batches_write_no_chunk() -> None:
    state, kept, settings = MemoryState(), StoredJournal(), ChannelsSettings()
    for mark in range(1, 1_001):
        append_segment(state, b"c", kept, mark, bytes(100), settings)
    assert state.saves < 30
    assert max(map(len, state.values.values())) < settings.chunk_bytes + settings.tail_bytes + 1_000


@given(st.integers(0, 2**32))
def test_every_channel_is_looked_at_when_it_is_due_and_idle_ones_never(seed: int) -> None:
    chance = random.Random(seed)
    settings = ChannelsSettings(shards=1, wake_ms=100, far_ms=1_000)
    state, now_ms = MemoryState(), 1_000_000
    due: dict[bytes, int | None] = {}
    wake: dict[bytes, int | None] = {}
    looks = 0
    for _ in range(60):
        wakes = DueCalendar.load(state, settings)
        for _ in range(chance.randrange(4)):
            channel = b"%d" % chance.randrange(6)
            due[channel] = chance.choice((None, now_ms + chance.choice((0, 50, 700, 5_000, 500_000))))
            wake[channel] = wakes.put(channel, due[channel], wake.get(channel), now_ms)
        timer_ms = wakes.save(state, now_ms)
        assert timer_ms is not None or all(time_ms is None for time_ms in wake.values())
        now_ms += chance.choice((10, 150, 1_000, 40_000))
        while timer_ms is not None and timer_ms <= now_ms:
            wakes = DueCalendar.load(state, settings)
            for time_ms, channel in wakes.take(state, timer_ms, 3):
                looks += 1
                if wake.get(channel) != time_ms:
                    continue
                wake[channel] = None
                its = due[channel]
                if its is not None and its > timer_ms:
                    wake[channel] = wakes.put(channel, its, None, now_ms)
                else:
                    due[channel] = None
            former_ms, timer_ms = timer_ms, wakes.save(state, timer_ms)
            if not wakes.times_ms:
                break
            assert timer_ms is not None and timer_ms > former_ms
        # Three channels an expiry, and an expiry a millisecond at worst.
        assert not [its for its in due.values() if its is not None and its < now_ms - settings.wake_ms - 10]
    assert looks < 60 * 4 * 30


def test_far_times_are_few() -> None:
    wakes, now_ms = DueCalendar(ChannelsSettings(shards=1)), 1_700_000_000_000
    for far_ms in range(60_000, 3_600_000, 500):
        wakes.put(b"c", now_ms + far_ms, None, now_ms)
    assert len(wakes.times_ms) < 40
    assert wakes.times_ms[0] >= now_ms + 30_000


def test_the_copies_used_longest_ago_go_first() -> None:
    cache = Cache(200)
    for name in (b"a", b"b", b"c"):
        cache.put(name, Copy.of(name, peer("alice")))
    assert cache.weight <= 200
    cached = [name for name in (b"a", b"b", b"c") if cache.take(name) is not None]
    assert cached == [b"a", b"b", b"c"][-len(cached) :]
    assert cached
    assert (cache.weight, len(cache)) == (0, 0)


def test_a_channel_that_is_too_heavy_is_not_kept_in_memory() -> None:
    cache = Cache(10)
    cache.put(b"c", Copy.of(b"token", peer("alice")))
    assert cache.take(b"c") is None


def test_no_two_kinds_share_a_prefix() -> None:
    kinds = [kind.prefix for kind in vars(StateKind).values() if isinstance(kind, Variable)]
    assert len(set(kinds)) == len(kinds) == 12


# Small blobs of a shard share buckets: the same map as without them, and few of the state's own calls.


NAMES = [b"name %d" % number for number in range(400)]
names = st.sampled_from(NAMES)
blobs = st.one_of(st.none(), st.binary(max_size=20))


@given(st.lists(st.lists(st.tuples(names, blobs), max_size=60), max_size=8))
def test_a_bucketed_map_is_the_map_without_buckets(batches: list[list[tuple[bytes, bytes | None]]]) -> None:
    state, expected = MemoryState(), dict[bytes, bytes]()
    for batch in batches:
        kept = BucketedState(state)
        for name, blob in batch:
            kept.save(StateKind.CHANNEL, name, blob)
            if blob is None:
                expected.pop(name, None)
            else:
                expected[name] = blob
            assert kept.load(StateKind.CHANNEL, name) == blob
        kept.flush()
        anew = BucketedState(state)
        assert all(anew.load(StateKind.CHANNEL, name) == expected.get(name) for name in NAMES)
        assert not any(anew.load(StateKind.HOSTED, name) for name in NAMES)


def _filled(count: int) -> MemoryState:
    state = MemoryState()
    kept = BucketedState(state)
    for number in range(count):
        kept.save(StateKind.CHANNEL, b"%d" % number, bytes(100))
    kept.flush()
    return state


def test_names_spread_over_buckets_evenly_however_many_there_are() -> None:
    for count in (1, 10, 1_000, 10_000):
        state = _filled(count)
        sizes = [len(blob) for (kind, _), blob in state.values.items() if kind is StateKind.CHANNEL]
        assert len(sizes) <= count / 8 + 1
        assert max(sizes) < 40 * 110, "a bucket of linear hashing is some times the mean at most"


def test_a_batch_that_touches_most_names_calls_state_once_a_bucket() -> None:
    state = _filled(1_000)
    state.loads = state.saves = 0
    kept = BucketedState(state)
    for number in range(800):
        assert kept.load(StateKind.CHANNEL, b"%d" % number) == bytes(100)
        kept.save(StateKind.CHANNEL, b"%d" % number, bytes(101))
    kept.flush()
    assert state.loads <= 126
    assert state.saves == state.loads - 1, "how many names there are has not changed"


def test_what_is_only_read_is_not_written() -> None:
    state = _filled(100)
    state.saves = 0
    kept = BucketedState(state)
    assert kept.load(StateKind.CHANNEL, b"7") is not None
    assert kept.load(StateKind.CHANNEL, b"nobody") is None
    kept.flush()
    assert state.saves == 0


def test_memory_is_bounded_when_a_batch_touches_very_many() -> None:
    state = MemoryState()
    kept = BucketedState(state)
    for number in range(2_000):
        kept.save(StateKind.CHANNEL, b"%d" % number, bytes(1 << 16))
    loaded_bytes = sum(
        len(blob) for bucket in kept._maps[StateKind.CHANNEL]._loaded.values() for blob in bucket.values()
    )
    assert loaded_bytes <= states._MAX_HELD_BYTES + (1 << 21)
    assert all(kept.load(StateKind.CHANNEL, b"%d" % number) == bytes(1 << 16) for number in range(2_000))


def test_other_kinds_go_straight_to_state() -> None:
    state = MemoryState()
    kept = BucketedState(state)
    kept.save(StateKind.TOKENS, b"c", b"blob")
    assert state.values == {(StateKind.TOKENS, b"c"): b"blob"}
    assert kept.load(StateKind.TOKENS, b"c") == b"blob"
    kept.save(StateKind.TOKENS, b"c", None)
    assert not state.values


# The memory of filters is bounded, whatever joins ask for: by channel, by shard, and in a worker's cache.


CAPACITY_OF_200_KB = 100_000


def large_filters(shard: Shard) -> list[int]:
    """The bytes of each cached filter that is larger than the default."""
    default = SdsSettings().filter_bytes("spec")
    return [size for copy in shard.cache.copies() if (size := copy.channel.filter_bytes) > default]


def test_a_filter_above_the_bound_of_a_channel_is_refused_with_its_code() -> None:
    shard = Shard(cache=Cache(10**9))
    for join in big_filter_joins(40):
        shard.take(join)
    records = shard.batch()
    assert [refused.code for refused in refusals(records)] == ["sds.bloom.size"] * 40
    assert large_filters(shard) == []
    rejections = [event for number in range(40) for event in events(records, f"big-{number}")]
    assert [event.details["code"] for event in rejections] == ["sds.bloom.size"] * 40


def test_enlarged_filters_of_a_shard_are_bounded_together_and_default_ones_go_on() -> None:
    bound = 1024 * 1024
    shard = Shard(settings=replace(SMALL, shard_filter_bytes=bound), cache=Cache(10**9))
    for batch in range(4):
        for join in big_filter_joins(10, prefix=f"big{batch}", capacity=CAPACITY_OF_200_KB, error_rate=1e-3):
            shard.take(join)
        shard.batch()
    codes = [refused.code for refused in refusals(shard.written)]
    assert codes == ["sds.bloom.full"] * len(codes)
    sizes = large_filters(shard)
    assert len(sizes) == 40 - len(codes) == bound // sizes[0]
    shard.ask("honest", "join", "alice")
    assert [event.kind for event in events(shard.batch(), "honest")] == ["joined"]


def test_a_channel_that_was_refused_its_filter_costs_the_shard_nothing() -> None:
    shard = Shard(settings=replace(SMALL, shard_filter_bytes=200_000))
    for join in big_filter_joins(20):
        shard.take(join)
    (fitting,) = big_filter_joins(1, prefix="fits", capacity=CAPACITY_OF_200_KB, error_rate=1e-3)
    shard.take(fitting)
    assert [event.kind for event in events(shard.batch(), "fits-0")] == ["joined"]


def test_the_cache_of_a_worker_weighs_filters() -> None:
    shard = Shard(cache=Cache(10_000))
    for join in big_filter_joins(40, capacity=CAPACITY_OF_200_KB, error_rate=1e-3):
        shard.take(join)
    shard.batch()
    assert 0 < sum(large_filters(shard)) <= 10_000 * ENTRY_BYTES


def test_a_followed_channel_keeps_its_filter_when_a_join_asks_for_too_large_a_one() -> None:
    shard = Shard()
    shard.hear("big-0", content(peer("bob", "big-0"), b"hello", shard.now_ms))
    shard.batch()
    (join,) = big_filter_joins(1)
    shard.take(join)
    (event,) = events(shard.batch(), "big-0")
    assert (event.kind, event.details["code"]) == ("rejected", "sds.bloom.size")
