"""Small blobs of a shard share buckets: the same map as without them, and few of the state's own calls."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from culm_streaming.sds import state as states
from culm_streaming.sds.state import BucketedState, Kind
from culm_streaming.stateful.job_state import MemoryState

NAMES = [b"name %d" % number for number in range(400)]
names = st.sampled_from(NAMES)
blobs = st.one_of(st.none(), st.binary(max_size=20))


@given(st.lists(st.lists(st.tuples(names, blobs), max_size=60), max_size=8))
def test_a_bucketed_map_is_the_map_without_buckets(batches: list[list[tuple[bytes, bytes | None]]]) -> None:
    state, expected = MemoryState(), dict[bytes, bytes]()
    for batch in batches:
        kept = BucketedState(state)
        for name, blob in batch:
            kept.save(Kind.CHANNEL, name, blob)
            if blob is None:
                expected.pop(name, None)
            else:
                expected[name] = blob
            assert kept.load(Kind.CHANNEL, name) == blob
        kept.flush()
        anew = BucketedState(state)
        assert all(anew.load(Kind.CHANNEL, name) == expected.get(name) for name in NAMES)
        assert not any(anew.load(Kind.HOSTED, name) for name in NAMES)


def _filled(count: int) -> MemoryState:
    state = MemoryState()
    kept = BucketedState(state)
    for number in range(count):
        kept.save(Kind.CHANNEL, b"%d" % number, bytes(100))
    kept.flush()
    return state


def test_names_spread_over_buckets_evenly_however_many_there_are() -> None:
    for count in (1, 10, 1_000, 10_000):
        state = _filled(count)
        sizes = [len(blob) for (kind, _), blob in state.values.items() if kind is Kind.CHANNEL]
        assert len(sizes) <= count / 8 + 1
        assert max(sizes) < 40 * 110, "a bucket of linear hashing is some times the mean at most"


def test_a_batch_that_touches_most_names_calls_state_once_a_bucket() -> None:
    state = _filled(1_000)
    state.loads = state.saves = 0
    kept = BucketedState(state)
    for number in range(800):
        assert kept.load(Kind.CHANNEL, b"%d" % number) == bytes(100)
        kept.save(Kind.CHANNEL, b"%d" % number, bytes(101))
    kept.flush()
    assert state.loads <= 126
    assert state.saves == state.loads - 1, "how many names there are has not changed"


def test_what_is_only_read_is_not_written() -> None:
    state = _filled(100)
    state.saves = 0
    kept = BucketedState(state)
    assert kept.load(Kind.CHANNEL, b"7") is not None
    assert kept.load(Kind.CHANNEL, b"nobody") is None
    kept.flush()
    assert state.saves == 0


def test_memory_is_bounded_when_a_batch_touches_very_many() -> None:
    state = MemoryState()
    kept = BucketedState(state)
    for number in range(2_000):
        kept.save(Kind.CHANNEL, b"%d" % number, bytes(1 << 16))
    held = sum(len(blob) for bucket in kept._maps[Kind.CHANNEL]._loaded.values() for blob in bucket.values())
    assert held <= states._MOST_HELD_BYTES + (1 << 21)
    assert all(kept.load(Kind.CHANNEL, b"%d" % number) == bytes(1 << 16) for number in range(2_000))


def test_other_kinds_go_straight_to_state() -> None:
    state = MemoryState()
    kept = BucketedState(state)
    kept.save(Kind.TOKENS, b"c", b"blob")
    assert state.values == {(Kind.TOKENS, b"c"): b"blob"}
    assert kept.load(Kind.TOKENS, b"c") == b"blob"
    kept.save(Kind.TOKENS, b"c", None)
    assert not state.values
