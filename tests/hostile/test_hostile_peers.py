"""Every known attack on a connector that serves honest pairs: all honest items arrive, nobody is frozen.

The table that is printed says what the attack did to the pair of each protocol; nothing asserts a time. But
no single turn of the connector's event loop may compute for over 250 ms, and its memory is bounded.
`make test-hostile` gives every attack 15 seconds; in every run some of them have two.
`CULM_HOSTILE_ATTACKS=forks,pings` names those that are wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from culm_infra.stack.ports import HOST
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.seeded import seed_state
from tests.support.connectors.http import get
from tests.support.deployment.full_edge import FullEdge, full_edge
from tests.support.hostile.attacker import ATTACKS
from tests.support.hostile.honest_pair import HonestPair
from tests.support.hostile.honest_pairs import honest_pairs

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(3_600)]

_SECONDS = float(os.environ.get("CULM_HOSTILE_SECONDS", "2"))
_WANTED = os.environ.get("CULM_HOSTILE_ATTACKS", "")
_BLOCKED_BOUND = "0.25"
_ROOM_BYTES = 256 * 1024**2
"""What all attacks together may make a connector take beyond its size at rest."""
QUIET = "(none)"
BUSY = "(busy process)"
"""No attack: a process that computes, to tell what is done to the connector from a processor shared."""
AFTER = "(after all)"
"""No attack again: what attacks leave behind."""
_BUSY = "print(flush=True)\nwhile True: pass"
_SHORT = (
    *("sparse-crypto", "expensive-cbor", "sds-join-leave"),
    *("chotki-no-v", "chotki-deaf-addresses", "bamboo-four-keys"),
    *("dag-empty-offers", "dag-orphans", "dag-new-spaces"),
    *("bymux-pings", "http-small-chunks"),
)
_ROOT = Path(__file__).parents[2]


def slow_turns(target: FullEdge) -> float:
    """How many turns of its event loop computed for longer than the bound, since its start."""
    _, text = get(target.metrics_port, "/metrics")
    counts = {
        sample.labels["le"]: sample.value
        for family in text_string_to_metric_families(text)
        if family.name == "culm_event_loop_blocked_seconds"
        for sample in family.samples
        if sample.name.endswith("_bucket")
    }
    return counts["+Inf"] - counts[_BLOCKED_BOUND]


@pytest.fixture
def target(
    tmp_path: Path, kafka_bootstrap: str, topic_prefix: str, request: pytest.FixtureRequest
) -> Iterator[FullEdge]:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(kafka)
    if request.node.get_closest_marker("soak"):
        # What a session costs grows with the state that it is sent.
        seed_state(kafka)
    with full_edge(tmp_path, kafka) as opened:
        yield opened


Latencies = dict[str, list[float]]
"""In seconds, ascending, by protocol."""


async def measure(pairs: dict[str, HonestPair], seconds: float) -> Latencies:
    """The latencies of all pairs, which publish at the same time."""
    async with asyncio.TaskGroup() as group:
        tasks = {name: group.create_task(pair.latencies(seconds)) for name, pair in pairs.items()}
    return {name: task.result() for name, task in tasks.items()}


def shown(ordered: list[float]) -> str:
    p50, p99 = (ordered[int(share * len(ordered))] * 1_000 for share in (0.5, 0.99))
    return f"{p50:.0f}/{p99:.0f}"


async def under(name: str, target: FullEdge, pairs: dict[str, HonestPair]) -> Latencies:
    """The honest latencies while an attack goes on in a process of its own."""
    ports = (str(target.edge.port), str(target.http_port), str(target.bamboo_port))
    program = ("-c", _BUSY) if name == BUSY else ("-m", "tests.support.hostile.attacker", name, HOST, *ports)
    attacker = await asyncio.create_subprocess_exec(
        sys.executable,
        *program,
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert attacker.stdout is not None
        started = await attacker.stdout.readline()
        latencies = await measure(pairs, _SECONDS)
        assert started and attacker.returncode is None, "the attacker ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            attacker.kill()
        await attacker.wait()
    target.edge.process.check()
    return latencies


async def run(target: FullEdge, folder: Path, names: tuple[str, ...]) -> None:
    async with honest_pairs(target, folder) as pairs:
        rest_bytes = target.edge.anonymous_bytes()
        columns = " ".join(f"{name:>11}" for name in pairs)
        print(f"\n{'p50/p99 in ms':22} {columns} {'over 250 ms':>12} {'MiB':>5}")
        slow_before = slow_turns(target)
        frozen: dict[str, float] = {}
        grown: dict[str, int] = {}
        for name in names:
            if name in (QUIET, AFTER):
                latencies = await measure(pairs, _SECONDS)
            else:
                latencies = await under(name, target, pairs)
            slow = slow_turns(target)
            more_bytes = target.edge.anonymous_bytes() - rest_bytes
            cells = " ".join(f"{shown(latencies[pair]):>11}" for pair in pairs)
            print(f"{name:22} {cells} {slow - slow_before:12.0f} {more_bytes / 1024**2:5.0f}")
            if slow > slow_before:
                frozen[name] = slow - slow_before
            if more_bytes > _ROOM_BYTES:
                grown[name] = more_bytes
            slow_before = slow
        assert not frozen, f"turns of the event loop over {_BLOCKED_BOUND} s: {frozen}"
        assert not grown, f"memory beyond {_ROOM_BYTES} bytes: {grown}"


async def test_some_attacks_in_short(target: FullEdge, tmp_path: Path) -> None:
    # Without the rows that are there to be compared with: nobody reads the table.
    await run(target, tmp_path, (*_SHORT, AFTER))


@pytest.mark.soak
async def test_every_attack(target: FullEdge, tmp_path: Path) -> None:
    attacks = _WANTED.split(",") if _WANTED else ATTACKS
    await run(target, tmp_path, (QUIET, BUSY, *attacks, AFTER))
