"""Chotki as people run it: a real job, two edges as processes, replicas over TCP, and kills between."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_models.chotki.ids import Id, object_key
from culm_models.chotki.rdx import delta, parse_text, print_text
from culm_models.chotki.replica import Replica
from culm_models.chotki.tlv import record
from tests.support.edge import topics
from tests.support.world import descendants

pytestmark = [pytest.mark.kafka, pytest.mark.spark]

DEADLINE_S = 150.0


async def until(condition: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"not in time: {what}"
        await asyncio.sleep(0.05)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def keep_connected(peer: ReplicaPeer, port: int) -> None:
    """As a replica does: call again whenever the connection has ended."""
    while True:
        with contextlib.suppress(TransportError):
            await peer.speak(await connect_tcp(("127.0.0.1", port), TcpSettings()))
        await asyncio.sleep(0.2)


def class_entry(letter: str, name: str, offset: int) -> bytes:
    return record("T", record("t", bytes([2 * offset])), letter.encode(), b"\0", name.encode())


def count(peer: ReplicaPeer, one: Id, number: int) -> None:
    key = object_key(Id(one.src, one.pro + 2), "N")
    old = peer.replica.store.get(key) or b""
    new = parse_text("N", str(int(print_text("N", old)) + number))
    operand = delta("N", old, new, src=peer.replica.src)
    peer.commit("E", one, record("f", b"\x02") + record("N", operand))


def total(peer: ReplicaPeer, one: Id) -> int:
    value = peer.replica.store.get(object_key(Id(one.src, one.pro + 2), "N"))
    return -1 if value is None else int(print_text("N", value))


@contextlib.contextmanager
def running(process: CulmProcess) -> Iterator[CulmProcess]:
    process.start()
    try:
        yield process
    finally:
        process.stop()


async def test_replicas_agree_through_kills_of_the_job_and_of_an_edge(
    kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    kafka = topics(kafka_bootstrap, topic_prefix)
    variables = environment(kafka)
    ports = [free_port(), free_port()]
    job = CulmProcess(
        "job",
        ("job", "run", "chotki", "--master", "local[2]", "--checkpoints", str(tmp_path / "jobs")),
        variables,
        tmp_path / "job.log",
    )
    edges = [
        CulmProcess(
            f"edge{number}",
            ("chotki", "listen", f"tcp://127.0.0.1:{port}", "--dir", str(tmp_path / f"edge{number}")),
            variables,
            tmp_path / f"edge{number}.log",
        )
        for number, port in enumerate(ports)
    ]
    ann, ben = ReplicaPeer(Replica(0xA, name="ann")), ReplicaPeer(Replica(0xB, name="ben"))
    class_id = ann.commit("C", Id(0, 0), class_entry("S", "Name", 1) + class_entry("N", "Count", 2))
    objects = [
        ann.commit("O", class_id, record("S", parse_text("S", f'"tide {number}"')) + record("N"))
        for number in range(30)
    ]
    with running(job), running(edges[0]), running(edges[1]):
        calling = [
            asyncio.create_task(keep_connected(peer, port))
            for peer, port in zip((ann, ben), ports, strict=True)
        ]
        await until(lambda: total(ben, objects[-1]) == 0, "Ann's objects at Ben")
        for one in objects:
            count(ann, one, 1)
            count(ben, one, 2)
        # In the middle of it all.
        edges[0].kill()
        tree = descendants(job.pid)
        job.kill()
        for pid in tree:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for one in objects:
            count(ann, one, 10)
            count(ben, one, 20)
        job.start()
        edges[0].start()
        await until(
            lambda: all(total(peer, one) == 33 for peer in (ann, ben) for one in objects), "the same counts"
        )
        await until(lambda: ann.replica.store.values() == ben.replica.store.values(), "equal stores")
        answer = await asyncio.to_thread(
            subprocess.run,
            [sys.executable, "-m", "culm_infra", "chotki", "get", str(objects[7]), "--json"],
            env=variables,
            capture_output=True,
            check=True,
            timeout=60,
        )
        for task in calling:
            task.cancel()
        await asyncio.gather(*calling, return_exceptions=True)
    told = json.loads(answer.stdout)
    assert told["fields"] == {"Name": "tide 7", "Count": 33}
