"""Whose step is next, who takes too slowly, and which turns of the loop take too long."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter

import pytest

from culm_connectors.edge.fair_turns import (
    Caller,
    FairQueue,
    FairWorker,
    LoopTurns,
    ShareOfTime,
    caller_address,
    calling,
)
from culm_connectors.edge.metrics import LoopWatch
from culm_connectors.rate_limit import LeastRate
from tests.support.process.waiting import ended

Path = tuple[str, ...]


def served(queue: FairQueue[Path], count: int, cost_s: float = 1.0) -> list[Path]:
    """The paths that are served next, which all take as long."""
    paths = []
    for _ in range(count):
        paths.append(queue.take())
        queue.charge(paths[-1], cost_s)
    return paths


def test_an_address_gains_nothing_by_further_keys() -> None:
    queue = FairQueue[Path]()
    for number in range(100):
        for key in "abcd":
            queue.add(("hostile", key), ("hostile", key))
        if number < 20:
            queue.add(("honest", "e"), ("honest", "e"))
    counts = Counter(served(queue, 40))
    assert counts["honest", "e"] == 20
    assert {counts["hostile", key] for key in "abcd"} == {5}


def test_who_takes_long_is_served_less_often() -> None:
    queue = FairQueue[Path]()
    for _ in range(100):
        queue.add(("slow",), ("slow",))
        queue.add(("quick",), ("quick",))
    counts: Counter[Path] = Counter()
    for _ in range(55):
        path = queue.take()
        counts[path] += 1
        queue.charge(path, 10.0 if path == ("slow",) else 1.0)
    assert counts[("slow",)] == 5


def test_who_was_away_has_saved_nothing_up() -> None:
    queue = FairQueue[Path]()
    for _ in range(10):
        queue.add(("busy",), ("busy",))
    served(queue, 5)
    for _ in range(5):
        queue.add(("late",), ("late",))
    assert Counter(served(queue, 6)) == {("busy",): 3, ("late",): 3}


def test_who_comes_again_has_not_got_rid_of_what_it_used() -> None:
    queue = FairQueue[Path]()
    queue.add(("a",), ("a",))
    served(queue, 1, 100.0)
    queue.add(("b",), ("b",))
    served(queue, 1)
    for name in ("a", "b", "b"):
        queue.add((name,), (name,))
    assert served(queue, 3) == [("b",), ("b",), ("a",)]


def test_callers_beyond_a_bound_are_forgotten_but_those_who_wait() -> None:
    queue = FairQueue[Path]()
    queue.add(("waits",), ("waits",))
    for number in range(6_000):
        queue.add((str(number),), (str(number),))
        served(queue, 1)
    assert len(queue._root.children) <= 4_098


def test_keys_of_one_address_share_its_time() -> None:
    share = ShareOfTime(0.5, 1.0)
    assert [share.charge(Caller("a", key), 0.5, 1.0) for key in "xy"] == [0, 0]
    assert share.charge(Caller("a", "z"), 0.5, 1.0) == 1.0
    assert share.charge(Caller("b", "u"), 0.5, 1.0) == 0
    # One key has no more for calling from several addresses.
    assert share.charge(Caller("c", "x"), 1.0, 1.0) == 1.0


async def test_a_stranger_who_floods_the_worker_delays_others_by_a_step() -> None:
    worker, begins = FairWorker("test"), threading.Event()
    order: list[str] = []

    async def ask(host: str, key: str, count: int) -> None:
        with calling(host, key):
            await asyncio.gather(*(worker.call(lambda: order.append(caller_address())) for _ in range(count)))

    async with asyncio.TaskGroup() as group:
        with calling("10.0.0.3", "f"):
            group.create_task(worker.call(begins.wait))
        await asyncio.sleep(0)
        for host, key in [*(("10.0.0.1", key) for key in "abcd"), ("10.0.0.2", "e")]:
            group.create_task(ask(host, key, 50 if host == "10.0.0.1" else 1))
        while len(worker._queue) < 201:  # noqa: ASYNC110 - until all have asked
            await asyncio.sleep(0)
        group.create_task(worker.call(lambda: order.append(caller_address())))
        await asyncio.sleep(0)
        begins.set()
    assert {order.index("10.0.0.2"), order.index("")} <= set(range(4))
    assert len(order) == 202
    await worker.stop()


async def test_a_step_that_fails_fails_its_caller_and_a_cancelled_one_is_left_out() -> None:
    worker, begins = FairWorker("test"), threading.Event()
    first = asyncio.create_task(worker.call(begins.wait))
    ran: list[int] = []
    cancelled = asyncio.create_task(worker.call(lambda: ran.append(1)))
    await asyncio.sleep(0)
    cancelled.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancelled
    begins.set()
    assert await first
    with pytest.raises(ZeroDivisionError):
        await worker.call(lambda: 1 // 0)
    assert not ran
    await worker.stop(lambda: ran.append(2))
    assert ran == [2]


async def test_metered_steps_count_to_the_share_and_others_do_not() -> None:
    worker = FairWorker("test", busy_share=1e-9, busy_burst_s=1e-9)
    with calling("10.0.0.1", "a"):
        await worker.call(lambda: None)
        await ended(worker.until_allowed())
        await worker.call(lambda: None, metered=True)
        waiting = asyncio.create_task(worker.until_allowed())
    with calling("10.0.0.2", "b"):
        await worker.until_allowed()
    assert not waiting.done()
    waiting.cancel()
    await worker.stop()


async def test_long_work_on_a_loop_is_done_a_step_at_a_time_and_addresses_take_turns() -> None:
    turns, order = LoopTurns(), list[str]()
    under_way = 0

    async def work(host: str, steps: int) -> None:
        nonlocal under_way
        with calling(host, host):
            for _ in range(steps):
                async with turns.turn():
                    under_way += 1
                    assert under_way == 1
                    order.append(host)
                    await asyncio.sleep(0)
                    under_way -= 1

    async with asyncio.TaskGroup() as group:
        greedy = [group.create_task(work("10.0.0.1", 20)) for _ in range(20)]
        await asyncio.sleep(0)
        # Those who no longer wait are passed over, and so is one who goes with its turn.
        for task in greedy[10:]:
            task.cancel()
        group.create_task(work("10.0.0.2", 20))
    assert order.count("10.0.0.1") == 200 and order.count("10.0.0.2") == 20
    assert len(order) - order[::-1].index("10.0.0.2") < 150
    async with turns.turn():
        pass


async def test_everybody_else_on_a_loop_waits_for_one_step_of_long_work() -> None:
    turns, steps = LoopTurns(), 0

    async def work() -> None:
        nonlocal steps
        for _ in range(20):
            async with turns.turn():
                steps += 1

    tasks = [asyncio.create_task(work()) for _ in range(20)]
    while not all(task.done() for task in tasks):
        before = steps
        await asyncio.sleep(0)
        assert steps - before <= 1
    assert steps == 400


def test_a_peer_may_take_nothing_for_the_grace_and_a_little_now_and_then_is_not_enough() -> None:
    rate = LeastRate(100.0, 30.0)
    rate.begin(0, 1_000.0)
    assert rate.count(0, 1_010.0) == 20.0
    # Half of the least rate: half of the time is lost.
    assert rate.count(500, 1_020.0) == 15.0
    assert rate.count(1_000, 1_050.0) < 0


def test_time_that_was_spent_is_earned_back_up_to_the_grace_and_counts_only_while_something_waits() -> None:
    rate = LeastRate(100.0, 30.0)
    rate.begin(0, 0.0)
    assert rate.count(0, 20.0) == 10.0
    rate.begin(0, 500.0)
    assert rate.count(1_000, 501.0) == 19.0
    assert rate.count(1_000_000, 502.0) == 30.0


def longer_than(watch: LoopWatch, bucket_s: str) -> float:
    """How many turns took longer than a bucket's bound."""
    samples = {
        sample.labels.get("le"): sample.value
        for metric in watch.blocked.collect()
        for sample in metric.samples
        if sample.name.endswith("_bucket")
    }
    return samples["+Inf"] - samples[bucket_s]


async def test_a_turn_that_computes_is_seen_and_one_that_waits_is_not() -> None:
    watch = LoopWatch()
    task = asyncio.create_task(watch.run())
    await asyncio.sleep(0)
    time.sleep(0.2)  # noqa: ASYNC251 - a late turn that costs nothing, as on a busy machine
    await asyncio.sleep(0.05)
    assert longer_than(watch, "0.1") == 0
    end_s = time.thread_time() + 0.3
    while time.thread_time() < end_s:
        pass
    await asyncio.sleep(0.05)
    assert longer_than(watch, "0.1") == 1
    task.cancel()
