"""SDS channels: send + encode + decode + receive between two participants, beside @waku/sds."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from bench import waku_sds
from bench.harness import BenchSettings, Ratio, exponent, say
from culm_models.sds.channel import Channel
from culm_models.sds.events import SyncSent
from culm_models.sds.settings import SdsSettings

_HISTORIES = (200, 2)
_GOAL = 15.0
_EXPONENT_GOAL = 1.05
_BESIDE_WAKU = 2_000
_SIZES = (1_000, 3_162, 10_000, 31_623, 100_000)
_SYNC_EVERY = 10
_PAUSE_MS = 200
_START_MS = 1_760_000_000_000
_UNIT = "messages/s"


@dataclass(frozen=True)
class Run:
    """One conversation. `log` of the receiver and `outgoing` of the sender prove the work."""

    seconds: float
    cpu_seconds: float
    bytes: int
    log: int
    outgoing: int


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure in one process and thread; @waku/sds in a separate process, alternating."""
    beside, rounds = (200, 1) if settings.quick else (_BESIDE_WAKU, 3)
    sizes = _SIZES[:2] if settings.quick else _SIZES
    ratios: list[Ratio] = []
    for history in _HISTORIES:
        for sync_every in (0, _SYNC_EVERY):
            ratios += _beside_waku(history, sync_every, beside, rounds)
            ratios += _growth(history, sync_every, sizes)
    return ratios


def _beside_waku(history: int, sync_every: int, messages: int, rounds: int) -> list[Ratio]:
    name = _name(history, sync_every, messages)
    package = waku_sds.implementation()
    if package is None:
        return []
    ours, theirs, cpu_ratios = [], [], []
    # Modules that are loaded on first use are loaded before.
    conversation(history, _SYNC_EVERY, 50)
    for _ in range(rounds):
        run = conversation(history, sync_every, messages)
        answer = waku_sds.asked(package, "channel", messages=messages, history=history, sync_every=sync_every)
        assert run.log == answer["log"] == messages, "a message was not delivered"
        ours.append(messages / run.seconds)
        theirs.append(messages / answer["seconds"])
        cpu_ratios.append(answer["cpu_seconds"] / run.cpu_seconds)
    pairs = sorted(zip(ours, theirs, strict=True), key=lambda pair: pair[0] / pair[1])
    best = pairs[len(pairs) // 2]
    # On a busy machine the processor time is more reliable; that of @waku/sds includes the engine's threads.
    cpu = sorted(cpu_ratios)[len(cpu_ratios) // 2]
    details = {"rounds": pairs, "cpu_ratio": cpu, "bytes": run.bytes, "their_bytes": answer["bytes"]}
    return [Ratio("sds-channel", name, *best, _UNIT, "@waku/sds", goal=_GOAL, details=details)]


def _growth(history: int, sync_every: int, sizes: tuple[int, ...]) -> list[Ratio]:
    """Measure processor time over the number of messages: the exponent of a line through their logarithms."""
    taken: list[float] = []
    for messages in sizes:
        run = conversation(history, sync_every, messages)
        assert run.log == messages, "a message was not delivered"
        taken.append(run.cpu_seconds)
        say(f"  {_name(history, sync_every, messages)}: {messages / run.seconds:,.0f} {_UNIT}")
    name = f"{_name(history, sync_every, sizes[-1])}, exponent of the time"
    details = dict(zip(map(str, sizes), taken, strict=True))
    return [
        Ratio(
            "sds-channel",
            name,
            exponent(sizes, taken),
            1.0,
            "",
            "linear",
            goal=_EXPONENT_GOAL,
            higher_is_better=False,
            details=details,
        ),
        Ratio(
            "sds-channel",
            _name(history, sync_every, sizes[-1]),
            sizes[-1] / taken[-1],
            sizes[0] / taken[0],
            _UNIT,
            f"the same with {sizes[0]:,} messages",
            goal=None,
        ),
    ]


def _name(history: int, sync_every: int, messages: int) -> str:
    acks = f"a sync back every {sync_every}" if sync_every else "no acks"
    return f"history {history}, {acks}, {messages:,} messages"


def conversation(history: int, sync_every: int, messages: int) -> Run:
    """Let Alice send and Bob receive; after every so many messages Bob sends a sync, which Alice receives.

    Time in the channel advances, so that it sends its syncs by itself; otherwise timers are not run, so
    nothing is re-sent.
    """
    settings = replace(
        SdsSettings.for_profile("js"),
        causal_history_size=history,
        max_outgoing=messages + 1,
        sync_floor_ms=1,
        sync_spread_ms=0,
    )
    now_ms = _START_MS
    alice = Channel("bench", "js", settings, now_ms=now_ms, seed=b"alice")
    bob = Channel("bench", "js", settings, now_ms=now_ms, seed=b"bob")
    alice.join("alice", now_ms)
    bob.join("bob", now_ms)
    size = syncs = 0
    started, cpu_started = time.perf_counter(), time.process_time()
    for number in range(1, messages + 1):
        now_ms += _PAUSE_MS
        wire = alice.send("alice", b"message %d" % number, now_ms).send[0].wire
        size += len(wire)
        bob.receive(wire, now_ms)
        if sync_every and number % sync_every == 0:
            tick = bob.tick(now_ms + _PAUSE_MS, only="sync")
            syncs += sum(isinstance(event, SyncSent) for event in tick.events)
            for outbound in tick.send:
                size += len(outbound.wire)
                alice.receive(outbound.wire, now_ms + _PAUSE_MS)
    seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
    assert syncs == (messages // sync_every if sync_every else 0), f"{syncs} syncs"
    status = bob.status()
    return Run(seconds, cpu_seconds, size, len(status.log), len(alice.status().outgoing))
