"""The Go replica of Chotki beside ours, by hand: `CULM_CHOTKI_GO` names a program (docs/chotki.md).

Both directions: it is called and it calls, in the default mode and in that which imitates it; it and an edge
are killed in the middle, and all hold the same in the end, byte for byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from bench import chotki_go, chotki_material
from bench.chotki_go import GoReplica
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.listener import serve_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from culm_infra.demo.kit.processes import CulmProcess, environment
from culm_infra.stack.ports import free_ports
from culm_models.chotki import events
from culm_models.chotki.compat import Compat
from culm_models.chotki.dump import dump
from culm_models.chotki.ids import Id
from culm_models.chotki.rdx import parse_text
from culm_models.chotki.rdx.classes import ClassField, write_class
from culm_models.chotki.replica import Replica
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from tests.support.connectors.edge import topics
from tests.support.process.waiting import while_working

OBJECTS = 100_000
EDITS = 2_000
TEXTS = {
    "F": "2.5",
    "I": "-11",
    "R": "c-2",
    "S": '"tide"',
    "T": "ebb",
    "N": "5",
    "Z": "-7",
    "E": '{1,"two",ebb}',
    "M": '{"high":1,"low":2}',
    "V": "c-2",
}
"""A value of every type that replicas merge, as people write it."""

pytestmark = [
    pytest.mark.skipif(
        chotki_go.implementation() is None, reason=f"{chotki_go.VARIABLE} names no Go replica"
    ),
    pytest.mark.timeout(900),
]


async def until(condition: Callable[[], object], what: str) -> None:
    """Wait for it; asking a replica may take a while, so it is asked on a thread."""
    async with while_working(what):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - it is another process
            await asyncio.sleep(0.1)


@contextlib.contextmanager
def go_replica(folder: Path, src: int) -> Iterator[GoReplica]:
    program = chotki_go.implementation()
    assert program is not None
    with chotki_go.running(GoReplica(program, folder, src)) as replica:
        yield replica


async def keep_calling(peer: ReplicaPeer, port: int) -> None:
    while True:
        with contextlib.suppress(TransportError):
            await peer.run_session(await connect_tcp(("127.0.0.1", port), TcpSettings()))
        await asyncio.sleep(0.2)


@contextlib.asynccontextmanager
async def joined(
    peer: ReplicaPeer, go: GoReplica, port: int, caller: Literal["ours", "go"]
) -> AsyncIterator[Callable[[], object]]:
    """A connection that is kept; what it yields lets the Go replica, started again, have it back."""
    address = f"tcp://127.0.0.1:{port}"
    if caller == "go":
        async with serve_tcp(("127.0.0.1", port), peer.run_session, TcpSettings()):
            go.ask("connect", addr=address)
            yield partial(go.ask, "connect", addr=address)
        return
    go.ask("listen", addr=address)
    task = asyncio.create_task(keep_calling(peer, port))
    try:
        yield partial(go.ask, "listen", addr=address)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def edit_body(number: int, letter: str, value: bytes) -> bytes:
    return record("f", bytes([number])) + record(letter, value)


@pytest.mark.parametrize("caller", ["ours", "go"])
@pytest.mark.parametrize("compat", list(Compat))
async def test_a_replica_and_the_go_replica_hold_the_same_through_a_kill(
    compat: Compat, caller: Literal["ours", "go"], tmp_path: Path
) -> None:
    (port,) = free_ports(1)
    ours = ReplicaPeer(Replica(0xA, MemoryStore(chotki_material.store(0xA, OBJECTS)), compat=compat))
    store = ours.replica.store
    with go_replica(tmp_path, 0xC) as go:
        class_id = go.commit("C", "0-0", chotki_material.class_body())
        go.commit("O", class_id, chotki_material.object_body(), OBJECTS)
        same = lambda: go.store() == store.values()  # noqa: E731 - asked for again and again
        async with joined(ours, go, port, caller) as rejoin:
            await until(lambda: _vector(go) == ours.replica.vector(), "the first sync")
            assert await asyncio.to_thread(same)
            for seq in range(EDITS):
                ours.commit("E", Id.make(0xC, 2 + seq), edit_body(2, "I", parse_text("I", str(seq))))
            await asyncio.to_thread(go.commit, "E", "a-5", edit_body(1, "S", parse_text("S", '"go"')), EDITS)
            await until(lambda: _vector(go) == ours.replica.vector(), "live edits")
            await asyncio.to_thread(go.kill)
            for seq in range(EDITS):
                ours.commit("E", Id.make(0xA, 2 + seq), edit_body(2, "I", parse_text("I", str(seq))))
            go.start()
            go.commit("E", "a-7", edit_body(3, "S", parse_text("S", '"after"')), EDITS)
            rejoin()
            await until(lambda: _vector(go) == ours.replica.vector(), "everything after the kill")
            await until(same, "equal stores")
            text = (await asyncio.to_thread(go.ask, "text"))["text"]
            assert text == dump(store.values())


def _vector(go: GoReplica) -> dict[int, int]:
    entries = (Id.from_text(text) for text in go.vector().split(","))
    return {id.src: id.pro for id in entries}


@pytest.mark.parametrize("compat", list(Compat))
async def test_values_of_every_type_go_both_ways_by_diff_and_live(compat: Compat, tmp_path: Path) -> None:
    (port,) = free_ports(1)
    ours = ReplicaPeer(Replica(0xA, name="ours", compat=compat))
    refusals: list[events.SessionEvent] = []
    ours.listeners.append(
        lambda _, event: refusals.append(event) if isinstance(event, events.SessionRefused) else None
    )
    values = [(letter, parse_text(letter, text, compat=compat)) for letter, text in TEXTS.items()]
    class_body = write_class([ClassField(offset, letter, letter) for offset, letter in enumerate(TEXTS, 1)])
    object_body = b"".join(record(letter, value) for letter, value in values)
    edits = [edit_body(number, letter, value) for number, (letter, value) in enumerate(values, 1)]
    with go_replica(tmp_path, 0xC) as go:
        go_class = go.commit("C", "0-0", class_body)
        our_class = ours.commit("C", Id(0, 0), class_body)
        go.commit("O", go_class, object_body, 20)
        our_objects = [ours.commit("O", our_class, object_body) for _ in range(20)]
        async with joined(ours, go, port, "ours"):
            await until(lambda: _vector(go) == ours.replica.vector(), "the diffs")
            for body in edits:
                go.commit("E", str(our_objects[0]), body)
                ours.commit("E", Id.from_text("c-2"), body)
                go.commit("E", "c-3", body)
                ours.commit("E", our_objects[1], body)
            go.commit("O", go_class, object_body, 20)
            for _ in range(20):
                ours.commit("O", our_class, object_body)
            await until(lambda: _vector(go) == ours.replica.vector(), "the live packets")
            await until(lambda: go.store() == ours.replica.store.values(), "equal stores")
            assert go.ask("text")["text"] == dump(ours.replica.store.values())
    assert not refusals


def test_a_read_of_the_go_replica_prints_what_it_prints_and_leaves_nothing_there(tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_ports(1)[0]}"
    with go_replica(tmp_path, 0xC) as go:
        class_id = go.commit("C", "0-0", chotki_material.class_body())
        go.commit("O", class_id, chotki_material.object_body(), OBJECTS)
        go.ask("listen", addr=address)
        before = go.store()
        command = [sys.executable, "-m", "culm_infra", "chotki", "dump", address]
        printed = subprocess.run(command, check=True, capture_output=True, text=True)
        assert printed.stdout == go.ask("text")["text"]
        assert go.store() == before


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.parametrize("compat", ["default", "go"])
async def test_two_go_replicas_agree_across_edges_through_kills(
    compat: str, kafka_bootstrap: str, topic_prefix: str, tmp_path: Path
) -> None:
    """One calls an edge, the other is called by an edge; a Go replica and an edge are killed meanwhile."""
    kafka = topics(kafka_bootstrap, topic_prefix, partitions=4)
    variables = environment(kafka)
    edge_port, go_port = free_ports(2)
    edge_url, go_url = f"tcp://127.0.0.1:{edge_port}", f"tcp://127.0.0.1:{go_port}"

    def process(name: str, *arguments: str) -> CulmProcess:
        return CulmProcess(name, arguments, variables, tmp_path / f"{name}.log")

    job = process(
        "job", "job", "run", "chotki", "--master", "local[2]", "--checkpoints", str(tmp_path / "jobs")
    )
    listening = process(
        "listening", "chotki", "listen", edge_url, "--compat", compat, "--dir", str(tmp_path / "listening")
    )
    calling = process(
        "calling", "chotki", "connect", go_url, "--compat", compat, "--dir", str(tmp_path / "calling")
    )
    with contextlib.ExitStack() as stack:
        ann = stack.enter_context(go_replica(tmp_path / "ann", 0xC))
        ben = stack.enter_context(go_replica(tmp_path / "ben", 0xD))
        for program in (job, listening, calling):
            stack.callback(program.stop)
            program.start()
        ben.ask("listen", addr=go_url)
        class_id = ann.commit("C", "0-0", chotki_material.class_body())
        ann.commit("O", class_id, chotki_material.object_body(), OBJECTS)
        ann.ask("connect", addr=edge_url)
        await until(lambda: _vector(ben).get(0xC) == _vector(ann)[0xC], "Ann's objects at Ben")
        for replica, number in ((ann, 1), (ben, 3)):
            replica.commit("E", "c-5", edit_body(number, "S", parse_text("S", '"live"')), EDITS)
        await until(lambda: _vector(ben) == _vector(ann), "live edits both ways")
        listening.kill()
        ben.kill()
        ann.commit("E", "c-7", edit_body(2, "I", parse_text("I", "7")), EDITS)
        ben.start()
        ben.commit("E", "c-9", edit_body(2, "I", parse_text("I", "9")), EDITS)
        ben.ask("listen", addr=go_url)
        listening.start()
        await until(lambda: _vector(ben) == _vector(ann), "everything after the kills")
        await until(lambda: ann.store() == ben.store(), "equal stores")
        assert len(ann.store()) > 4 * OBJECTS
