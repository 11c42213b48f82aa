"""How the state of SDS channels is laid out: rows, journals, the calendar, copies in memory."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from culm_streaming.sds.record import Cache, Copy, Journal, append_segment, replace_journal, segments
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.state import DueCalendar, Kind
from culm_streaming.sds.step import Row, Source, in_order
from culm_streaming.stateful.job_state import MemoryState, Variable
from tests.support.sds_shards import peer

SMALL = ChannelsSettings(shards=1, tail_bytes=20, chunk_bytes=50, compact_bytes=200)
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
    found = in_order(rows)
    assert [row[:4] for row in found] == sorted(row[:4] for row in rows)
    chance.shuffle(rows)
    assert in_order(rows) == found


@given(st.lists(st.one_of(st.binary(max_size=60), st.just(None)), max_size=25))
def test_a_journal_gives_what_came_after_any_of_its_marks(steps: list[bytes | None]) -> None:
    """None: the journal is written anew."""
    state, kept = MemoryState(), Journal()
    written: list[tuple[int, bytes]] = []
    for mark, data in enumerate(steps, 1):
        if data is None:
            whole = b"".join(part for _, part in written)[:150]
            replace_journal(state, b"c", kept, mark, whole, SMALL)
            written = [(mark, whole)]
        else:
            append_segment(state, b"c", kept, mark, data, SMALL)
            written.append((mark, data))
        kept = Journal.unpack(kept.pack())
    marks = [-1, *(mark for mark, _ in written)]
    for since in marks:
        expected = [data for mark, data in written if mark > since]
        assert list(segments(state, b"c", kept, since)) == expected
    assert len(state.values) == len(kept.ends), "no chunk is left over"


def test_most_batches_write_no_chunk() -> None:
    state, kept, settings = MemoryState(), Journal(), ChannelsSettings()
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
        assert timer_ms is not None or all(one is None for one in wake.values())
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
    held = [name for name in (b"a", b"b", b"c") if cache.take(name) is not None]
    assert held == [b"a", b"b", b"c"][-len(held) :]
    assert held
    assert (cache.weight, len(cache)) == (0, 0)


def test_a_channel_that_is_too_heavy_is_not_kept_in_memory() -> None:
    cache = Cache(10)
    cache.put(b"c", Copy.of(b"token", peer("alice")))
    assert cache.take(b"c") is None


def test_no_two_kinds_share_a_prefix() -> None:
    kinds = [kind.prefix for kind in vars(Kind).values() if isinstance(kind, Variable)]
    assert len(set(kinds)) == len(kinds) == 12
