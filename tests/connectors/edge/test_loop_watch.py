"""A turn of the event loop that computes for long is seen, one that only waits is not."""

from __future__ import annotations

import asyncio
import time

from culm_connectors.edge.metrics import LoopWatch


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
