"""SDS sync traffic of one channel as its group grows from 10 to 10,000, simulated: is it flat a second?"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from heapq import heappop, heappush

from bench.harness import Ratio, Settings, say
from culm_models.sds.channel import Channel
from culm_models.sds.output import ChannelOutput
from culm_models.sds.settings import SdsSettings

_SIZES = (10, 100, 1_000, 10_000)
_GOAL = 2.0
"""Of the largest group's syncs a second over those of the smallest: what is flat but for chance."""
_LEARNING_MS = 300_000
"""Until then the group does not know its size: who has heard one sender reckons with a small group."""
_DELAY_MS = 100
_START_MS = 1_760_000_000_000
_PER_MESSAGE_MS = 300_000
_S_PER_H = 3_600
_CASE = "sds-sync"


@dataclass(frozen=True)
class Traffic:
    """What a group said in so many seconds of its time; `storm`: the most syncs in any 30 of them.

    `first` and `later`: its syncs a second while it learned its size, and from then on.
    """

    seconds: float
    first: float
    later: float
    bytes: int
    storm: int


def run(settings: Settings) -> list[Ratio]:
    """Every participant is a whole channel of its own, and hears every message 100 ms after it was said."""
    sizes, minutes = (_SIZES[:3], 10) if settings.quick else (_SIZES, 20)
    found: dict[int, Traffic] = {}
    for size in sizes:
        found[size] = group(size, minutes * 60_000)
        traffic = found[size]
        say(f"  {size:,}: {traffic.later:.3f} syncs/s, {traffic.storm} within 30 s, {traffic.bytes:,} bytes")
    details = {
        str(size): {
            "syncs_per_s": traffic.later,
            "syncs_per_s_in_the_first_five_minutes": traffic.first,
            "bytes_per_s": traffic.bytes / traffic.seconds,
            "most_in_30_s": traffic.storm,
        }
        for size, traffic in found.items()
    }
    small, large = found[sizes[0]], found[sizes[-1]]
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
        # What a timer of U(0, 30 s) at each of n participants gives, as other implementations have it.
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
    """One channel; somebody writes every five minutes."""
    rng = random.Random(size)
    # Small filters: 10,000 of them are held in one process.
    settings = replace(SdsSettings(), bloom_capacity=200, max_wire_bytes=0)
    nodes = [
        Channel("bench", "spec", settings, now_ms=_START_MS, seed=b"node %d" % number)
        for number in range(size)
    ]
    for number, node in enumerate(nodes):
        node.join(f"node {number}", _START_MS)
    agenda: list[tuple[int, int, int, bytes | None]] = []
    sync_times: list[int] = []
    said_bytes = steps = 0

    def say_all(number: int, output: ChannelOutput, now_ms: int) -> None:
        nonlocal said_bytes, steps
        for outbound in output.send:
            steps += 1
            said_bytes += len(outbound.wire)
            if outbound.kind == "sync":
                sync_times.append(now_ms)
            heappush(agenda, (now_ms + _DELAY_MS, steps, number, outbound.wire))
        plan(number, now_ms)

    def plan(number: int, now_ms: int) -> None:
        nonlocal steps
        due_ms = nodes[number].next_due_ms()
        if due_ms is not None:
            steps += 1
            heappush(agenda, (max(due_ms, now_ms), steps, number, None))

    next_message_ms, end_ms = _START_MS, _START_MS + duration_ms
    while True:
        if not agenda or next_message_ms <= agenda[0][0]:
            if next_message_ms >= end_ms:
                break
            number = rng.randrange(size)
            output = nodes[number].send(f"node {number}", b"words", next_message_ms)
            say_all(number, output, next_message_ms)
            next_message_ms += _PER_MESSAGE_MS
            continue
        now_ms, _, number, wire = heappop(agenda)
        if now_ms >= end_ms:
            break
        if wire is not None:
            for other, node in enumerate(nodes):
                if other != number:
                    say_all(other, node.receive(wire, now_ms), now_ms)
        elif (due_ms := nodes[number].next_due_ms()) is not None and due_ms <= now_ms:
            # What is planned and no longer due is passed over here.
            say_all(number, nodes[number].tick(now_ms), now_ms)
    storm = max(
        (sum(1 for at in sync_times if start <= at < start + 30_000) for start in sync_times), default=0
    )
    first = sum(1 for at in sync_times if at < _START_MS + _LEARNING_MS)
    later = len(sync_times) - first
    return Traffic(
        duration_ms / 1_000,
        first * 1_000 / _LEARNING_MS,
        later * 1_000 / (duration_ms - _LEARNING_MS),
        said_bytes,
        storm,
    )
