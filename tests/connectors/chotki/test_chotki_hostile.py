"""What a hostile replica may cost an edge: its own service, and nobody else's. Without Kafka."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from culm_connectors.chotki.budgets import ReplicaBudget, replica_budgets
from culm_connectors.chotki.driver import ChotkiDriver
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.chotki.settings import ChotkiEdgeSettings
from culm_connectors.edge.fair_turns import calling
from culm_connectors.transport import Identity, TransportError, TransportSettings
from culm_connectors.transport.memory import MemoryChannel, memory_pair
from culm_connectors.transport.principal import Principal
from culm_models.chotki.ids import Id
from culm_models.chotki.packets.live import read_live, write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx.first import write_first
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import RecordReader, record
from culm_topics.chotki.records import PacketRecord
from tests.support.chotki.edge import Acknowledging, edge_shared
from tests.support.hostile.chotki import (
    CHOTKI_ATTACKS,
    SRC,
    deeply_nested,
    handshake,
    handshakes,
    in_pieces,
    mutated,
    open_syncs,
    parcels_without_end,
    pings,
    repeated_packet,
    small_packets,
)
from tests.support.process.waiting import until, while_working

_CALLS = 20


@dataclass
class Attacked:
    """An edge, what it has produced, and how to come to it."""

    driver: ChotkiDriver
    producer: Acknowledging

    @contextlib.asynccontextmanager
    async def attacker(self) -> AsyncIterator[MemoryChannel]:
        near, far = memory_pair(256 * 1024)
        near.principal = Principal.of_address(("198.51.100.9", 1))
        serving = asyncio.create_task(self.driver.serve(near))
        try:
            with contextlib.suppress(TransportError):
                await far.write(handshake())
            yield far
        finally:
            far.abort()
            async with while_working():
                await asyncio.gather(serving, return_exceptions=True)

    async def serves(self) -> None:
        """An honest replica is heard and answered, whatever else goes on.

        It calls again when its session ends: on a machine that stands still, a handshake comes too late.
        """
        peer = ReplicaPeer(Replica(0xA, name="ann"))
        before = len(self.producer.of("chotki.commits"))

        def is_heard() -> bool:
            return len(self.producer.of("chotki.commits")) > before

        for _ in range(_CALLS):
            near, far = memory_pair(64 * 1024)
            serving = asyncio.create_task(self.driver.serve(near))
            speaking = asyncio.create_task(peer.run_session(far))
            try:
                async with while_working():
                    await until(partial(_any, is_heard, speaking.done))
            finally:
                far.abort()
                await asyncio.gather(serving, speaking, return_exceptions=True)
            if is_heard():
                return
        raise AssertionError(f"an honest replica called {_CALLS} times and was not heard")


def _any(*conditions: Callable[[], bool]) -> bool:
    return any(condition() for condition in conditions)


@contextlib.contextmanager
def attacked(folder: Path, **settings: object) -> Iterator[Attacked]:
    driver = ChotkiDriver(Identity.from_private_key(bytes(32)), TransportSettings(), lambda _: None)
    producer = Acknowledging()
    chotki = ChotkiEdgeSettings.model_validate({"ping_wait_ms": 300, **settings})
    with edge_shared(folder, producer=producer, report=driver.reports.event, settings=chotki) as shared:
        driver.begin(shared)
        yield Attacked(driver, producer)


async def say(channel: MemoryChannel, packets: Iterator[bytes], seconds: float = 0.5) -> int:
    """Say packets for so long, or until the edge has ended it; how many pieces it took."""
    taken = 0
    with contextlib.suppress(TransportError, TimeoutError):
        async with asyncio.timeout(seconds):
            for piece in in_pieces(packets, 16 * 1024):
                await channel.write(piece)
                taken += 1
    return taken


async def said(channel: MemoryChannel) -> list[bytes]:
    """The records that the edge says until it ends the session."""
    reader, records = RecordReader(1 << 24), list[bytes]()
    with contextlib.suppress(TransportError):
        async with while_working():
            while data := await channel.read():
                records += reader.feed(data)
    return records


def large_records() -> Iterator[bytes]:
    return itertools.repeat(record("E", b"x" * 70_000))


@pytest.mark.parametrize("name", sorted(CHOTKI_ATTACKS))
async def test_an_honest_replica_is_served_beside_every_attack(tmp_path: Path, name: str) -> None:
    with attacked(tmp_path, records_per_second=1_000, burst_records=1_000) as edge:
        async with edge.attacker() as channel:
            saying = asyncio.create_task(say(channel, CHOTKI_ATTACKS[name](), 20))
            reading = asyncio.create_task(said(channel))
            await asyncio.sleep(0)
            await edge.serves()
            for task in (saying, reading):
                task.cancel()
            await asyncio.gather(saying, reading, return_exceptions=True)


async def test_records_beyond_the_rate_are_read_later(tmp_path: Path) -> None:
    with attacked(tmp_path, records_per_second=100, burst_records=100) as edge:
        for attack in (small_packets, pings, repeated_packet):
            async with edge.attacker() as channel:
                await say(channel, attack())
        # One piece may go beyond the burst; then each waits for the debt of the one before.
        assert edge.driver.metrics.packets_in <= 3_000


@pytest.mark.parametrize(
    ("packets", "settings", "code"),
    [
        (open_syncs, {}, "chotki.sync_count"),
        (parcels_without_end, {"max_sync_bytes": 1 << 20}, "chotki.sync_bytes"),
        (
            lambda: itertools.repeat(record("E", b"x" * 70_000)),
            {"max_record_bytes": 65_536},
            "chotki.record_size",
        ),
        (lambda: itertools.repeat(b"!"), {}, "chotki.record"),
        (deeply_nested, {}, "chotki.value"),
    ],
)
async def test_what_is_beyond_a_bound_ends_the_session_with_its_code(
    tmp_path: Path, packets: object, settings: dict[str, object], code: str
) -> None:
    assert callable(packets)
    with attacked(tmp_path, **settings) as edge:
        async with edge.attacker() as channel:
            saying = asyncio.create_task(say(channel, packets(), 20))
            records = await said(channel)
            await saying
        assert records[-1][:1] == b"b" and records[-1].endswith(code.encode())
        assert edge.driver.metrics.rejects[code] == 1
        await edge.serves()


async def test_handshakes_of_a_principal_are_paced(tmp_path: Path) -> None:
    with attacked(tmp_path, syncs_per_second=1, burst_syncs=10) as edge:
        async with edge.attacker() as channel:
            taken = await say(channel, handshakes(), 1)
        assert taken * 16 * 1024 <= 1 << 20


async def test_who_asks_for_everything_again_and_again_waits_for_it(tmp_path: Path) -> None:
    with attacked(tmp_path, sent_bytes_per_second=1_000, burst_sent_bytes=1_000) as edge:
        loop = asyncio.get_running_loop()
        begun_s, heard = loop.time(), 0
        while heard < 2_500:
            async with edge.attacker() as channel:
                heard += len(await channel.read())
        # The first thousand bytes are free.
        assert loop.time() - begun_s >= 1.0


async def test_a_live_packet_that_kafka_cannot_hold_is_refused(tmp_path: Path) -> None:

    value = write_first(0, 0, b"x" * (3 << 20))
    packet = write_live("E", Id.make(SRC, 1), Id.make(0xA, 1), record("f", b"\1") + record("S", value))
    with attacked(tmp_path) as edge:
        async with edge.attacker() as channel:
            await channel.write(packet)
            records = await said(channel)
        assert records[-1].endswith(b"chotki.record_size")
        assert edge.producer.of("chotki.packets") == []


async def test_who_comes_again_and_again_is_not_served(tmp_path: Path) -> None:
    with attacked(tmp_path, connections_per_minute=5) as edge:
        for _ in range(20):
            async with edge.attacker() as channel:
                with contextlib.suppress(TransportError):
                    await channel.read()
        assert edge.driver.metrics.refused["overloaded"] == 15


async def test_mutated_packets_produce_nothing_that_is_none(tmp_path: Path) -> None:

    with attacked(tmp_path, connections_per_minute=0) as edge:
        for seed in range(60):
            async with edge.attacker() as channel:
                await channel.write(b"".join(itertools.islice(mutated(seed), 40)))
                channel.finish()
                await said(channel)
        for value in edge.producer.of("chotki.packets"):
            packet = PacketRecord.decode(value).packet
            read_live(parse(packet), packet)
        assert not edge.driver.connections and edge.driver.metrics.connections == 0
        assert edge.driver.metrics.rejects.total() >= 30


def test_the_budget_of_a_principal_outlives_its_sessions() -> None:
    budgets = replica_budgets(ChotkiEdgeSettings(connections_per_minute=2, max_connections_per_peer=1))
    first = budgets.begin("address:1", 0)
    assert first is not None and budgets.begin("address:1", 0) is None
    assert budgets.begin("address:2", 0) is not None
    budgets.end("address:1")
    assert budgets.begin("address:1", 1) is first
    budgets.end("address:1")
    assert budgets.begin("address:1", 2) is None
    assert budgets.begin("address:1", 62) is first


def computing(count: int) -> Iterator[None]:
    """Steps of two milliseconds each."""
    for _ in range(count):
        end_s = time.monotonic() + 0.002
        while time.monotonic() < end_s:
            pass
        yield


async def test_what_a_principal_sends_takes_no_more_than_its_share_of_the_time() -> None:
    budget = ReplicaBudget(ChotkiEdgeSettings(busy_share=0.2, busy_burst_s=0.001), time.monotonic())
    turns_of_others = 0

    async def other() -> None:
        nonlocal turns_of_others
        while True:
            await asyncio.sleep(0)
            turns_of_others += 1

    others = asyncio.create_task(other())
    begun_s = time.monotonic()
    with calling("10.0.0.1", "one"):
        await budget.take_in(1, computing(20))
    others.cancel()
    # Twenty steps of two milliseconds, less what may be saved up and what a clock rounds.
    assert time.monotonic() - begun_s >= 0.18
    assert turns_of_others >= 20


async def test_principals_of_one_address_take_no_more_than_one_share_of_the_time() -> None:
    budgets = replica_budgets(ChotkiEdgeSettings(busy_share=0.2, busy_burst_s=0.001))

    async def take_in(host: str, name: str, count: int) -> None:
        with calling(host, name):
            await budgets.of(name, time.monotonic()).take_in(1, computing(count))

    begun_s = time.monotonic()
    await asyncio.gather(*(take_in("10.0.0.1", name, 5) for name in ("one", "two", "three", "four")))
    assert time.monotonic() - begun_s >= 0.18
