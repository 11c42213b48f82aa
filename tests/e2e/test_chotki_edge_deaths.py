"""An edge as a process that dies at named points, on a real broker: its replicas lose nothing.

The simulation (`test_chotki_kills`) has every point; these few are those of the reference's table 9.3.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.stack.ports import free_ports
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import delta, parse_text, print_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from culm_topics.kafka.clients import KafkaSettings
from tests.support.chotki.bridge import bridging
from tests.support.process.waiting import until

pytestmark = pytest.mark.kafka

POINTS = (
    "before:chotki.fields",
    "after:chotki.fields",
    "before:chotki.commits",
    "after:chotki.commits",
    "before:chotki.packets",
    "after:chotki.packets",
    "before:store",
)


async def keep_connected(peer: ReplicaPeer, port: int) -> None:
    """As a replica does: call again whenever the connection has ended."""
    while True:
        with contextlib.suppress(TransportError):
            await peer.run_session(await connect_tcp(("127.0.0.1", port), TcpSettings()))
        await asyncio.sleep(0.2)


@contextlib.contextmanager
def running(process: CulmProcess) -> Iterator[None]:
    process.start()
    try:
        yield
    finally:
        process.stop()


def class_entry(letter: str, name: str, offset: int) -> bytes:
    return record("T", record("t", bytes([2 * offset])), letter.encode(), b"\0", name.encode())


def count(peer: ReplicaPeer, object_id: Id) -> None:
    old = peer.replica.store.get(object_key(Id(object_id.src, object_id.pro + 2), "N")) or b""
    new = parse_text("N", str(int(print_text("N", old)) + 1))
    peer.commit(
        "E", object_id, record("f", b"\x02") + record("N", delta("N", old, new, src=peer.replica.src))
    )


def make_objects(peer: ReplicaPeer) -> list[Id]:
    class_id = peer.commit("C", Id(0, 0), class_entry("S", "Name", 1) + class_entry("N", "Count", 2))
    body = record("S", parse_text("S", '"tide"')) + record("N")
    return [peer.commit("O", class_id, body) for _ in range(5)]


async def test_an_edge_that_dies_at_any_named_point_loses_nothing(
    kafka: KafkaSettings, tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    command = ("chotki", "listen", f"tcp://127.0.0.1:{port}", "--dir", str(tmp_path / "edge"))
    variables = environment(kafka)
    whole = CulmProcess("edge", command, variables, tmp_path / "edge.log")
    peers: list[ReplicaPeer] = []
    calling: list[asyncio.Task[None]] = []
    async with bridging(kafka, 2) as bridge:
        # Its own first packet is out: what a dying run sends is what its replicas bring.
        with running(whole):
            await until(lambda: len(bridge.job.vector) == 2)
        for number, point in enumerate(POINTS):
            peer = ReplicaPeer(Replica(0xA + number, name=point))
            objects = make_objects(peer)
            dying = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.support.process.dying_edge", point, *command),
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            calling.append(asyncio.create_task(keep_connected(peer, port)))
            peers.append(peer)
            dead = asyncio.create_task(dying.wait())
            while not dead.done():
                # What is live goes on meanwhile.
                count(peer, objects[0])
                await asyncio.wait({dead}, timeout=0.05)
            assert dead.result() == -signal.SIGKILL, point
        with running(whole):
            await until(
                lambda: all(peer.replica.store.values() == bridge.job.values() for peer in peers),
            )
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)
    assert bridge.job.rejected == []
