"""Every known attack on a connector that serves an honest pair: all honest entries arrive, nobody is frozen.

The table that is printed says what the attack did to the honest pair; nothing asserts a time. But no single
turn of the connector's event loop may compute for over 250 ms, and its memory is bounded.
`make test-hostile` gives every attack 15 seconds; in every run some of them have two.
`CULM_HOSTILE_ATTACKS=forks,pings` names those that are wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from culm_infra.demo.kit.processes import CulmProcess, environment, free_udp_ports
from culm_infra.demo.p2panda.history import LogWriter
from culm_infra.stack.ports import HOST, choose
from culm_models.bamboo.checks import CheckedEntry
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.attacker import ATTACKS
from tests.support.edge import until
from tests.support.http import get
from tests.support.members import Member, member, new_schema, write_logs
from tests.support.world import Edge

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

_SECONDS = float(os.environ.get("CULM_HOSTILE_SECONDS", "2"))
_WANTED = os.environ.get("CULM_HOSTILE_ATTACKS", "")
_PAUSE_S = 0.05
_ARRIVAL_TIMEOUT_S = 60.0
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
    *("sparse-crypto", "undecryptable", "sparse-stream", "expensive-cbor", "sds-join-leave"),
    *("chotki-small-packets", "chotki-no-v"),
    *("bamboo-adjusts", "bamboo-entries"),
)
_ROOT = Path(__file__).parents[2]


@dataclass
class Target:
    """A connector under attack."""

    edge: Edge
    metrics_port: int

    def slow_turns(self) -> float:
        """How many turns of its event loop computed for longer than the bound, since its start."""
        _, text = get(self.metrics_port, "/metrics")
        counts = {
            sample.labels["le"]: sample.value
            for family in text_string_to_metric_families(text)
            if family.name == "culm_event_loop_blocked_seconds"
            for sample in family.samples
            if sample.name.endswith("_bucket")
        }
        return counts["+Inf"] - counts[_BLOCKED_BOUND]


@dataclass
class Honest:
    """One peer publishes, the other receives; both at the same connector."""

    writer: Member
    reader: Member
    log: LogWriter
    arrived_s: dict[int, float]

    async def publish(self, seconds: float) -> list[float]:
        """Publish for so long; the seconds that each entry took to the other peer, once all have come."""
        sent_s: dict[int, float] = {}
        end_s = time.monotonic() + seconds
        while time.monotonic() < end_s:
            sent_s[len(self.log.entries) + 1] = time.monotonic()
            await self.writer.write(self.log)
            await asyncio.sleep(_PAUSE_S)
        await until(lambda: sent_s.keys() <= self.arrived_s.keys(), _ARRIVAL_TIMEOUT_S)
        return sorted(self.arrived_s[seq_num] - at_s for seq_num, at_s in sent_s.items())


@pytest.fixture
def target(tmp_path: Path, kafka_bootstrap: str, topic_prefix: str) -> Iterator[Target]:
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=2)
    admin.create(kafka)
    (port,) = free_udp_ports(1)
    metrics_port = choose(())
    assert metrics_port is not None
    process = CulmProcess(
        "the connector",
        (
            *("connector", "run", "--listen", f"{HOST}:{port}", "--dir", str(tmp_path / "edge")),
            *("--metrics-port", str(metrics_port), "--serve-at-once"),
        ),
        # Replicas of Chotki call by TCP at the port that has QUIC by UDP.
        environment(kafka)
        | {
            "CULM_CONNECTOR__CHOTKI__LISTEN": f'["tcp://{HOST}:{port}"]',
            "CULM_CONNECTOR__BAMBOO__LISTEN": f'["quic://{HOST}:{port}/yamf"]',
        },
        tmp_path / "connector.log",
    )
    edge = Edge(process, tmp_path / "edge", port)
    edge.start()
    try:
        process.wait_for_log("serving peers", 60.0)
        yield Target(edge, metrics_port)
    finally:
        process.stop()


def percentile(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] * 1_000


async def under(name: str, target: Target, honest: Honest) -> list[float]:
    """The honest latencies while an attack goes on in a process of its own."""
    program = (
        ("-c", _BUSY) if name == BUSY else ("-m", "tests.support.attacker", name, HOST, str(target.edge.port))
    )
    attacker = await asyncio.create_subprocess_exec(
        sys.executable,
        *program,
        cwd=_ROOT,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert attacker.stdout is not None
        started = await attacker.stdout.readline()
        latencies = await honest.publish(_SECONDS)
        assert started and attacker.returncode is None, "the attacker ended by itself"
    finally:
        with contextlib.suppress(ProcessLookupError):
            attacker.kill()
        await attacker.wait()
    target.edge.process.check()
    return latencies


async def run(target: Target, folder: Path, names: tuple[str, ...]) -> None:
    schema = new_schema("honest")
    (log,) = write_logs(1, schema, [1])
    arrived_s: dict[int, float] = {}

    def note(entries: object) -> None:
        assert isinstance(entries, list | tuple)
        for one in entries:
            assert isinstance(one, CheckedEntry)
            arrived_s.setdefault(one.entry.seq_num, time.monotonic())

    async with member(folder, "writer", [schema]) as writer, member(folder, "reader", [schema]) as reader:
        reader.peer.stored_listeners.append(note)
        await writer.add(log.entries)
        for one in (writer, reader):
            one.dial(target.edge)
        await until(lambda: writer.is_live(schema) and reader.is_live(schema), _ARRIVAL_TIMEOUT_S)
        honest = Honest(writer, reader, log, arrived_s)
        rest_bytes = target.edge.anonymous_bytes()
        # Twice as long, so that one slow write to Kafka is not the measure of all that follows.
        quiet = await honest.publish(2 * _SECONDS)
        print(f"\n{'attack':20} {'p50 ms':>8} {'p99 ms':>8} {'x quiet':>8} {'over 250 ms':>12} {'MiB':>5}")
        slow_before = target.slow_turns()
        frozen: dict[str, float] = {}
        grown: dict[str, int] = {}
        for name in (QUIET, BUSY, *names, AFTER):
            if name == QUIET:
                latencies = quiet
            elif name == AFTER:
                latencies = await honest.publish(_SECONDS)
            else:
                latencies = await under(name, target, honest)
            slow = target.slow_turns()
            more_bytes = target.edge.anonymous_bytes() - rest_bytes
            ratio = percentile(latencies, 0.99) / percentile(quiet, 0.99)
            print(
                f"{name:20} {percentile(latencies, 0.5):8.1f} {percentile(latencies, 0.99):8.1f} "
                f"{ratio:8.2f} {slow - slow_before:12.0f} {more_bytes / 1024**2:5.0f}"
            )
            if slow > slow_before:
                frozen[name] = slow - slow_before
            if more_bytes > _ROOM_BYTES:
                grown[name] = more_bytes
            slow_before = slow
        assert not frozen, f"turns of the event loop over {_BLOCKED_BOUND} s: {frozen}"
        assert not grown, f"memory beyond {_ROOM_BYTES} bytes: {grown}"
        assert reader.lacks({(log.key_pair.public_key, log.log_id): len(log.entries)}) == 0


async def test_some_attacks_in_short(target: Target, tmp_path: Path) -> None:
    await run(target, tmp_path, _SHORT)


@pytest.mark.soak
async def test_every_attack(target: Target, tmp_path: Path) -> None:
    await run(target, tmp_path, tuple(_WANTED.split(",")) if _WANTED else tuple(ATTACKS))
