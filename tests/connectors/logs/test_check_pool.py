"""The pool that checks entries: the same results, in order, whoever does the work."""

from __future__ import annotations

from functools import partial

import pytest

from culm_connectors.logs.check_pool import CHUNK_PAIRS, INLINE_PAIRS, CheckPool
from culm_models.bamboo.checks import CheckedEntry
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import check_many
from tests.support.logs import author, make_log


@pytest.mark.parametrize("count", [0, 1, INLINE_PAIRS, INLINE_PAIRS + 1, 20])
async def test_results_are_in_order_whether_checked_at_once_or_in_a_thread(count: int) -> None:
    log = make_log(author("alice"), 0, count) if count else []
    pool = CheckPool(1, check_many)
    try:
        checked = await pool.submit([(one.entry_bytes, one.payload_bytes) for one in log])
    finally:
        pool.close()
    assert checked == log
    assert pool.waiting == 0


async def test_few_entries_wait_their_turn_behind_many() -> None:
    log = make_log(author("bob"), 0, 20)
    pairs = [(one.entry_bytes, one.payload_bytes) for one in log]
    pool = CheckPool(1, check_many)
    try:
        many = pool.submit(pairs)
        one = pool.submit(pairs[:1])
        assert not one.done(), "it went to the threads, behind what waits there"
        assert len(await many) == 20
        assert await one == log[:1]
    finally:
        pool.close()


async def test_a_forged_entry_is_an_error_in_its_place_at_once_too() -> None:
    (good,) = make_log(author("carol"), 0, 1)
    forged = good.entry_bytes[:-1] + bytes([good.entry_bytes[-1] ^ 1])
    pool = CheckPool(1, check_many)
    try:
        first, second = await pool.submit(
            [(forged, good.payload_bytes), (good.entry_bytes, good.payload_bytes)]
        )
    finally:
        pool.close()
    assert isinstance(first, CulmError)
    assert first.code == "bamboo.signature"
    assert isinstance(second, CheckedEntry)


async def test_owners_take_turns_a_chunk_at_a_time() -> None:
    log = make_log(author("dora"), 0, 3)
    sound = [(one.entry_bytes, one.payload_bytes) for one in log]
    pool = CheckPool(1, check_many)
    order: list[str] = []

    def note(name: str, _: object) -> None:
        order.append(name)

    try:
        flood = [pool.submit([*sound] * CHUNK_PAIRS, owner="flood") for _ in range(4)]
        honest = pool.submit(sound, owner="honest")
        for name, work in (("honest", honest), *(("flood", one) for one in flood)):
            work.add_done_callback(partial(note, name))
        results = [await one for one in flood]
    finally:
        pool.close()
    assert order.index("honest") <= 1, "no more than what was begun goes before"
    assert results[0] == log * CHUNK_PAIRS, "the chunks are put together in order"


async def test_what_is_cancelled_is_not_checked() -> None:
    log = make_log(author("emil"), 0, 3)
    sound = [(one.entry_bytes, one.payload_bytes) for one in log]
    pool = CheckPool(1, check_many)
    try:
        given_up = pool.submit([*sound] * 50 * CHUNK_PAIRS, owner="gone")
        given_up.cancel()
        assert await pool.submit(sound, owner="stays") == log
        assert pool.waiting <= 2 * CHUNK_PAIRS
    finally:
        pool.close()
