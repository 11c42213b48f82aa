"""SDS sync traffic per second of one channel as its group grows from 10 to 10,000, simulated."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from bench.harness import BenchSettings, Ratio, say
from culm_models.sds.events import Outbound
from culm_models.sds.settings import SdsSettings
from culm_models.testing.sds.network import SdsNetwork

_SIZES = (10, 100, 1_000, 10_000)
_GOAL = 2.0
"""Goal for the largest group's syncs per second over the smallest group's: constant, except for chance."""
_LEARNING_MS = 300_000
"""Until then the group does not know its size: a participant that has heard one sender assumes a small
group.
"""
_PER_MESSAGE_MS = 300_000
_S_PER_H = 3_600
_CASE = "sds-sync"


@dataclass(frozen=True)
class Traffic:
    """Messages of a group in so many simulated seconds; `storm`: the most syncs in any 30 seconds.

    `first` and `later`: syncs per second while the group learned its size, and after that.
    """

    seconds: float
    first: float
    later: float
    bytes: int
    storm: int


def run(settings: BenchSettings) -> list[Ratio]:
    """Simulate every participant as a complete channel that receives every message after 100 ms."""
    sizes, minutes = (_SIZES[:3], 10) if settings.quick else (_SIZES, 20)
    by_size: dict[int, Traffic] = {}
    for size in sizes:
        by_size[size] = group(size, minutes * 60_000)
        traffic = by_size[size]
        say(f"  {size:,}: {traffic.later:.3f} syncs/s, {traffic.storm} within 30 s, {traffic.bytes:,} bytes")
    details = {
        str(size): {
            "syncs_per_s": traffic.later,
            "syncs_per_s_in_the_first_five_minutes": traffic.first,
            "bytes_per_s": traffic.bytes / traffic.seconds,
            "most_in_30_s": traffic.storm,
        }
        for size, traffic in by_size.items()
    }
    small, large = by_size[sizes[0]], by_size[sizes[-1]]
    return [
        Ratio(
            _CASE,
            f"syncs of {sizes[-1]:,} participants",
            large.later * _S_PER_H,
            small.later * _S_PER_H,
            "syncs/h",
            f"of {sizes[0]:,}",
            goal=_GOAL,
            higher_is_better=False,
            details=details,
        ),
        # Rate of a timer of U(0, 30 s) at each of n participants, as in other implementations.
        Ratio(
            _CASE,
            f"syncs of {sizes[-1]:,} participants",
            large.later * _S_PER_H,
            (sizes[-1] + 1) / 30 * _S_PER_H,
            "syncs/h",
            "a timer of 0 to 30 s at each",
            goal=None,
        ),
    ]


def group(size: int, duration_ms: int) -> Traffic:
    """Simulate one channel in which somebody writes every five minutes."""
    rng = random.Random(size)
    # Small filters: 10,000 of them are held in one process.
    settings = replace(SdsSettings.for_participants("spec"), bloom_capacity=200, max_wire_bytes=0)
    channel = SdsNetwork(size, settings)
    start_ms = channel.now_ms
    sync_times: list[int] = []

    def note(_: int, outbound: Outbound) -> None:
        if outbound.kind == "sync":
            sync_times.append(channel.now_ms)

    channel.on_sent = note
    while channel.now_ms < start_ms + duration_ms:
        channel.send(rng.randrange(size), b"words")
        channel.run_until(channel.now_ms + _PER_MESSAGE_MS)
    storm = max(
        (sum(1 for at in sync_times if start <= at < start + 30_000) for start in sync_times), default=0
    )
    first = sum(1 for at in sync_times if at < start_ms + _LEARNING_MS)
    later = len(sync_times) - first
    return Traffic(
        duration_ms / 1_000,
        first * 1_000 / _LEARNING_MS,
        later * 1_000 / (duration_ms - _LEARNING_MS),
        channel.counts["bytes"],
        storm,
    )
