"""A rolling restart under load of all protocols: each of two connectors drains and starts again.

Members of every protocol publish at the west and receive at the east all the time. All that they published is
in Kafka and at the other member, once in its state; nothing is refused. Readiness is 503 before the first
connection is refused, and connections are accepted in between.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from culm_connectors.p2panda.settings import ALPN
from culm_connectors.transport import CloseCode, CloseOrigin, ConnectError, Identity, TransportSettings
from culm_connectors.transport.quic import connect
from culm_infra.demo.dag.door import DoorClient
from culm_infra.demo.kit.processes import DemoError
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.bridge import bridging
from tests.support.connectors.http import get
from tests.support.deployment.full_edge import FullEdge, full_edge
from tests.support.hostile.honest_pair import HonestPair
from tests.support.hostile.honest_pairs import honest_pairs
from tests.support.kafka.topic_io import read_all, read_rejected
from tests.support.process.waiting import until, while_working

pytestmark = [pytest.mark.kafka, pytest.mark.deploy, pytest.mark.timeout(1_800)]

UNREADY_S, SPREAD_S = 1.0, 1.0
_PAUSE_S = 0.2
_END_LIMIT_S = _ARRIVAL_LIMIT_S = 60.0
_PERSISTED = (
    *("entries", "payloads", "fragments"),
    *("sds.in", "chotki.packets", "chotki.fields", "dag.nodes", "dag.shards"),
)
"""Topics that have what members publish."""
READY, NOT_READY, ACCEPTED, REFUSED = "ready", "not ready", "accepted", "refused"


@dataclass
class Load:
    """Items that a pair publishes until it is stopped."""

    pair: HonestPair
    sent_s: dict[Hashable, float] = field(default_factory=dict)

    async def run(self, stop: asyncio.Event) -> None:
        """Publish one item after the other."""
        while not stop.is_set():
            at_s = time.monotonic()
            self.sent_s[await self.pair.publish()] = at_s
            await asyncio.sleep(_PAUSE_S)

    @property
    def missing(self) -> int:
        """How many published items are not at the second member."""
        return len(self.sent_s.keys() - self.pair.arrived_s.keys())

    @property
    def longest_s(self) -> float:
        """The longest time from publishing to arrival."""
        arrived_s = self.pair.arrived_s
        times_s = (arrived_s[item] - at_s for item, at_s in self.sent_s.items() if item in arrived_s)
        return max(times_s, default=0.0)


class Probe:
    """Asks a connector whether it is ready, and connects to it over QUIC and HTTP, in turns."""

    def __init__(self, target: FullEdge) -> None:
        self._target = target
        self.seen: list[tuple[str, str]] = []
        """What was asked, and what the answer was."""
        self.codes: Counter[str] = Counter()
        """Answers of connections that were refused."""

    async def run(self) -> None:
        """Ask until the process has gone."""
        while True:
            try:
                status, text = await asyncio.to_thread(get, self._target.metrics_port, "/readyz")
            except OSError:
                return
            self.seen.append(("readyz", READY if status == 200 else NOT_READY))
            if status != 200:
                assert "draining" in text, text
            self._note("quic", await self._over_quic())
            self._note("http", await self._over_http())

    def _note(self, door: str, refusal: str | None) -> None:
        self.seen.append((door, ACCEPTED if refusal is None else REFUSED))
        if refusal is not None:
            self.codes[f"{door}: {refusal}"] += 1

    async def _over_quic(self) -> str | None:
        identity = Identity.from_private_key(os.urandom(32))
        settings = TransportSettings(datagram_bytes="auto")
        try:
            connection = await connect(self._target.address, identity, None, settings, alpn=ALPN)
        except ConnectError as error:
            reason = error.reason
            if reason is None or reason.origin != CloseOrigin.REMOTE:
                return "gone"
            return CloseCode(reason.code).name.lower()
        await connection.close()
        return None

    async def _over_http(self) -> str | None:
        try:
            answer = await DoorClient(*self._target.http, "stranger").ask("GET", "/openapi.json")
        except DemoError:
            return "gone"
        return None if answer.status == 200 else str(answer.json()["code"])

    def check(self) -> None:
        """Readiness went first, the doors followed, and peers received a code."""
        first_refused = next(place for place, (_, answer) in enumerate(self.seen) if answer == REFUSED)
        not_ready = self.seen.index(("readyz", NOT_READY))
        assert not_ready < first_refused, self.seen
        assert ("quic", ACCEPTED) in self.seen[not_ready:first_refused], self.seen
        assert self.codes.keys() <= {
            *("quic: shutting_down", "quic: gone"),
            *("http: dag.http.shutting_down", "http: gone"),
        }
        assert self.codes["quic: shutting_down"], self.codes


async def drained(target: FullEdge) -> int | None:
    """Drain a connector by the command; returns the exit status of the connector."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "culm_infra", "connector", "drain", "--dir", str(target.edge.folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"\n{done.stderr}{done.stdout}")
    assert done.returncode == 0, done.stderr
    assert "has drained" in done.stdout
    return await asyncio.to_thread(target.edge.process.ended, _END_LIMIT_S)


async def terminated(target: FullEdge) -> int | None:
    """End a connector by SIGTERM; returns its exit status."""
    os.kill(target.edge.process.pid, signal.SIGTERM)
    return await asyncio.to_thread(target.edge.process.ended, _END_LIMIT_S)


async def roll(target: FullEdge, end: Callable[[FullEdge], Awaitable[int | None]]) -> Counter[str]:
    """End a connector and start it again over the same directory; returns what refused strangers saw."""
    probe = Probe(target)
    probing = asyncio.create_task(probe.run())
    await until(lambda: ("quic", ACCEPTED) in probe.seen)
    status = await end(target)
    async with while_working():
        await probing
    assert status == 0, target.edge.process.last_words()
    probe.check()
    await asyncio.to_thread(target.start)
    return probe.codes


async def rolled_under_load(folder: Path, kafka: KafkaSettings, rounds: int, between_s: float) -> None:
    """Roll both connectors some times, and count what was published."""
    settings = {"drain__unready_s": UNREADY_S, "drain__spread_s": SPREAD_S}
    with (
        full_edge(folder, kafka, "west", **settings) as west,
        full_edge(folder, kafka, "east", **settings) as east,
    ):
        codes: Counter[str] = Counter()
        async with (
            bridging(kafka, 2),  # the job of Chotki, whose diffs wait for an epoch
            honest_pairs(west, folder / "members", east) as pairs,
        ):
            loads = {name: Load(pair) for name, pair in pairs.items()}
            stop = asyncio.Event()
            async with asyncio.TaskGroup() as group:
                for load in loads.values():
                    group.create_task(load.run(stop))
                for number in range(rounds):
                    for target in (west, east):
                        await asyncio.sleep(between_s)
                        codes += await roll(target, (drained, terminated)[(number + (target is east)) % 2])
                await asyncio.sleep(between_s)
                stop.set()
            try:
                await until(
                    lambda: not any(load.missing for load in loads.values()),
                    "all items at the second members",
                    limit_s=_ARRIVAL_LIMIT_S,
                    progress=lambda: [load.missing for load in loads.values()],
                )
            finally:
                show(loads, codes)
            await until_same(pairs)
            check(loads, kafka)


async def until_same(pairs: dict[str, HonestPair]) -> None:
    """Wait until both members of every pair hold the same."""
    for name, pair in pairs.items():
        what = f"the same state at both members of {name}"
        async with while_working(what, limit_s=_ARRIVAL_LIMIT_S, progress=lambda: None):
            while not await pair.same_state():  # noqa: ASYNC110 - stores say nothing of their changes
                await asyncio.sleep(_PAUSE_S)


def show(loads: dict[str, Load], codes: Counter[str]) -> None:
    """Print the counts."""
    print(f"\n{'protocol':10} {'published':>9} {'arrived':>8} {'repeated':>8} {'slowest':>8}")
    for name, load in loads.items():
        arrivals = load.pair.arrivals
        repeated = sum(max(0, arrivals[item] - 1) for item in load.sent_s)
        print(
            f"{name:10} {len(load.sent_s):9} {len(load.sent_s) - load.missing:8} {repeated:8} "
            f"{load.longest_s:6.1f} s"
        )
    print(f"strangers were refused: {dict(codes)}")


def check(loads: dict[str, Load], kafka: KafkaSettings) -> None:
    """All that was published is in Kafka and arrived, once where members count it; nothing is refused."""
    persisted = b"\n".join(
        value for name in _PERSISTED for _, value in read_all(kafka, name) if value is not None
    )
    for name, load in loads.items():
        traces = load.pair.traces
        lost = [item for item in load.sent_s if traces[item] not in persisted]
        assert not lost, f"{name}: not in Kafka: {lost[:3]}"
    for name in ("p2panda", "sds", "dag-quic", "dag-http"):
        arrivals = loads[name].pair.arrivals
        assert not [item for item, count in arrivals.items() if count > 1], f"{name}: delivered twice"
    assert not read_rejected(kafka)


async def test_two_connectors_are_rolled_under_load(kafka: KafkaSettings, tmp_path: Path) -> None:
    await rolled_under_load(tmp_path, kafka, rounds=1, between_s=1.0)


@pytest.mark.soak
async def test_two_connectors_are_rolled_again_and_again(kafka: KafkaSettings, tmp_path: Path) -> None:
    await rolled_under_load(tmp_path, kafka, rounds=8, between_s=10.0)
