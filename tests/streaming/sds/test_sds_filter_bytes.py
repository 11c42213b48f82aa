"""The memory of filters is bounded, whatever joins ask for: by channel, by shard, and in a worker's cache."""

from __future__ import annotations

from dataclasses import replace

from culm_models.sds.channel_state import ENTRY_BYTES
from culm_models.sds.settings import SdsSettings
from culm_streaming.sds.record import Cache
from tests.support.hostile_sds import big_filter_joins
from tests.support.sds_shards import SMALL, Shard, content, events, peer, refusals

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
    told = [event for number in range(40) for event in events(records, f"big-{number}")]
    assert [event.details["code"] for event in told] == ["sds.bloom.size"] * 40


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
