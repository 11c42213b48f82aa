"""Time to acknowledgement of SDS messages and its cost in bytes, by group size and loss, simulated."""

from __future__ import annotations

import random
import statistics
from dataclasses import dataclass, replace

from bench.harness import BenchSettings, Ratio, say
from culm_models.sds.events import SdsEvent
from culm_models.sds.settings import SdsSettings
from culm_models.testing.sds.network import SdsNetwork

_CASE = "sds-answers"
_SIZES = (3, 10, 100)
_LOSSES = (0.0, 0.2, 0.4)
_GOAL_MS = 3_000
"""Goal for the median, for three participants that each lose every fifth message."""
_DELAY_MS = (20, 200)
_PAUSE_MS = 10_000
_CALM_MS = 3_600_000
_CUTS = 100


@dataclass(frozen=True)
class Answers:
    """Times to acknowledgement in milliseconds, and what was sent per message with content."""

    p50_ms: float
    p99_ms: float
    bytes: float
    syncs: float
    retries: float


def run(settings: BenchSettings) -> list[Ratio]:
    """Send a message every ten seconds, after everybody has sent before; all others answer by syncs."""
    ratios: list[Ratio] = []
    for size in _SIZES[:2] if settings.quick else _SIZES:
        count = 20 if settings.quick else 400 if size < _SIZES[-1] else 100
        for loss in _LOSSES:
            soon, later = (measure(size, loss, count, soon=soon) for soon in (True, False))
            say(f"  {size} participants, {loss:.0%} lost: {soon}; with regular syncs alone: {later}")
            ratios.append(
                Ratio(
                    _CASE,
                    f"acknowledgement p50, {size} participants, {loss:.0%} lost",
                    soon.p50_ms,
                    float(_GOAL_MS),
                    "ms",
                    "the goal for 3 participants and 20%",
                    goal=1.0 if (size, loss) == (3, 0.2) else None,
                    higher_is_better=False,
                    details={"soon": repr(soon), "regular": repr(later)},
                )
            )
    return ratios


def measure(size: int, loss: float, count: int, *, soon: bool) -> Answers:
    """Send so many messages, and wait for the acknowledgement of each."""
    settings = SdsSettings.for_participants("spec")
    if not soon:
        settings = replace(settings, sync_ack_ms=0)
    channel = SdsNetwork(size, settings, seed=size, delay_ms=_DELAY_MS, loss=loss)
    rng = random.Random(size)
    for number in range(size):
        channel.send(number, b"a first word")
        channel.run_until(channel.now_ms + _PAUSE_MS)
    sent_ms: dict[str, int] = {}
    waited_ms: dict[str, int] = {}

    def note(_: int, event: SdsEvent) -> None:
        if event.kind == "acknowledged" and event.message_id in sent_ms:
            waited_ms[event.message_id] = channel.now_ms - sent_ms[event.message_id]

    channel.on_event = note
    channel.counts.clear()
    for _ in range(count):
        sent_ms[channel.send(rng.randrange(size), b"words")] = channel.now_ms
        channel.run_until(channel.now_ms + _PAUSE_MS)
    counts = channel.counts.copy()
    channel.run_until(channel.now_ms + _CALM_MS)
    # A message that was never acknowledged counts with the longest time.
    times = [float(waited_ms.get(message_id, _CALM_MS)) for message_id in sent_ms]
    cuts = statistics.quantiles(times, n=_CUTS, method="inclusive")
    return Answers(
        p50_ms=cuts[49],
        p99_ms=cuts[98],
        bytes=round(counts["bytes"] / count),
        syncs=counts["sync"] / count,
        retries=(counts["retry"] + counts["repair"]) / count,
    )
