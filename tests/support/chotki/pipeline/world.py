"""Replicas at edges, what they change and when, and what must come of it whatever happened on the way.

`FIVE_REPLICAS` is the tree of reference 9.3: two edges, five replicas, one of them behind a hub, and the hub
at both edges, so that there is a circle.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.chotki.sources import own_object
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.memory import memory_pair
from culm_models.chotki.compat import Compat
from culm_models.chotki.ids import GLOBAL_VECTOR_KEY, ZERO_ID, Id, object_key
from culm_models.chotki.log0 import common_store, fresh_store
from culm_models.chotki.packets.live import LivePacket, read_live, write_live
from culm_models.chotki.packets.packet import parse
from culm_models.chotki.rdx import delta, merge, parse_text, parse_vector, print_text
from culm_models.chotki.replica import Replica, writes_of_live
from culm_models.chotki.store import MemoryStore
from culm_models.chotki.tlv import record
from tests.support.chotki.pipeline.edge import MemoryEdge, without_kafka
from tests.support.chotki.pipeline.faults import Fault, Writes
from tests.support.chotki.pipeline.job import MemoryJob
from tests.support.chotki.pipeline.topics import MemoryTopics
from tests.support.chotki.pipeline.virtual_time import run_virtually

_PARTITIONS = 2
_REDIAL_S = 0.2
_LOOK_S = 0.25
_FIRST_SOURCE = 0xA
_MALFORMED = (("I", b"0" + bytes([1]) * 9), ("S", b"7" + bytes(7) + b"x"))
"""A number of nine bytes, and a stamp of seven."""


@dataclass(frozen=True, slots=True)
class Tree:
    """`calls`: who calls whom, replicas by number, edges by -1, -2 …"""

    replicas: int
    edges: int
    calls: tuple[tuple[int, int], ...]


FIVE_REPLICAS = Tree(5, 2, ((0, -1), (1, -1), (1, -2), (2, 1), (3, -2), (4, -2)))
THREE_REPLICAS = Tree(3, 2, ((0, -1), (1, -2), (2, 1)))


class Differs(AssertionError):
    """Somebody lacks something at the end, or holds what was never written."""


class VectorAhead(Differs):
    """A vector claims a change that its holder's values lack."""


@dataclass
class World:
    """One run: of a tree, a seed, and faults by the number of the write."""

    tree: Tree
    folder: Path
    seed: int = 0
    faults: Mapping[int, Fault] = field(default_factory=dict)
    rounds: int = 4
    patience_s: float = 150.0
    """For so long after the last change may stores differ."""
    compat: Compat = Compat.DEFAULT
    """With `GO` replicas also write values that do not parse as their type."""

    def run(self) -> Writes:
        """The whole run. Raises `Differs`."""
        return run_virtually(self._run())

    async def _run(self) -> Writes:
        writes = Writes(self.faults)
        topics = MemoryTopics(_PARTITIONS)
        self.job = MemoryJob(topics, writes, self.seed)
        self.edges = [
            MemoryEdge(self.folder / f"edge{number}", topics, writes, 0xED6E0 + number, self.compat)
            for number in range(self.tree.edges)
        ]
        self.replicas = [
            ReplicaPeer(
                Replica(_FIRST_SOURCE + number, name=f"replica {number}", seed=self.seed, compat=self.compat)
            )
            for number in range(self.tree.replicas)
        ]
        self._chance = random.Random(self.seed)
        self._objects: list[Id] = []
        self._changes: list[LivePacket] = []
        self._ledger = MemoryStore(common_store())
        for replica in self.replicas:
            # A replica's own entry of the global vector is raised by its changes; merging takes the greater.
            fresh = fresh_store(replica.replica.src, f"replica {replica.replica.src - _FIRST_SOURCE}")
            self._ledger.merge((key, value, None) for key, value in fresh.items())
        for edge in self.edges:
            self._note(own_object(edge.source, edge.name))
        with without_kafka(topics, self.edges):
            tasks = [asyncio.create_task(edge.live()) for edge in self.edges]
            tasks.append(asyncio.create_task(self.job.live()))
            tasks += [asyncio.create_task(self._keep_connected(*call)) for call in self.tree.calls]
            try:
                await self._change_things()
                await self._until_equal(tasks)
            finally:
                for task in tasks:
                    task.cancel()
                ended = await asyncio.gather(*tasks, return_exceptions=True)
        for error in ended:
            if isinstance(error, Exception):
                raise error
        return writes

    async def _keep_connected(self, caller: int, called: int) -> None:
        peer = self.replicas[caller]
        while True:
            near, far = memory_pair()
            if called >= 0:
                accepted = asyncio.create_task(self.replicas[called].run_session(far))
                with contextlib.suppress(TransportError):
                    await peer.run_session(near)
                await accepted
            elif (edge := self.edges[-called - 1]).is_ready:
                edge.accept(far)
                with contextlib.suppress(TransportError):
                    await peer.run_session(near)
            await asyncio.sleep(_REDIAL_S)

    # What is changed.

    async def _change_things(self) -> None:
        first = self.replicas[0]
        body = b"".join(_entry(letter, number) for number, letter in enumerate("SNME", 1))
        class_id = self._commit(first, "C", ZERO_ID, body)
        for _ in range(self.rounds):
            self._check_vectors()
            for peer in self.replicas:
                await asyncio.sleep(self._chance.choice((0.0, 0.02, 0.3)))
                # An object whose class the replica has not seen yet is fine.
                if self._chance.random() < 0.4 or not self._objects:
                    body = (
                        record("S", parse_text("S", f'"{"tide " * 10}"'))
                        + record("N")
                        + record("M")
                        + record("E")
                    )
                    self._objects.append(self._commit(peer, "O", class_id, body))
                if self.compat is Compat.GO:
                    self._commit(peer, "O", class_id, b"".join(record(*field) for field in _MALFORMED))
                for object_id in self._chance.sample(self._objects, min(2, len(self._objects))):
                    self._edit(peer, object_id)

    def _edit(self, peer: ReplicaPeer, object_id: Id) -> None:
        number, letter = self._chance.choice(tuple(enumerate("SNM", 1)))
        old = peer.replica.store.get(object_key(Id(object_id.src, object_id.pro + number), letter)) or b""
        word = f"w{self._chance.randrange(1_000)}"
        match letter:
            case "N":
                text = str((int(print_text("N", old)) if old else 0) + self._chance.randint(1, 9))
            case "S":
                text = f'"{word * 10}"'
            case _:
                text = f'{{{word}:"{self._chance.randrange(9)}"}}'
        operand = delta(letter, old, parse_text(letter, text), src=peer.replica.src)
        if operand:
            self._commit(peer, "E", object_id, record("f", bytes([number])) + record(letter, operand))

    def _commit(self, peer: ReplicaPeer, letter: str, ref: Id, body: bytes) -> Id:
        id = peer.commit(letter, ref, body)
        self._note(write_live(letter, id, ref, body))
        return id

    def _note(self, packet: bytes) -> None:
        live = read_live(parse(packet), packet, compat=self.compat)
        self._ledger.merge(writes_of_live(live))
        self._changes.append(live)

    # What must come of it.

    async def _until_equal(self, tasks: list[asyncio.Task[None]]) -> None:
        expected = self._ledger.values()
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self.patience_s
        while (where := self._difference(expected)) is not None:
            self._check_vectors()
            for task in tasks:
                if task.done():
                    task.result()
            if loop.time() > deadline_s:
                ends = [(edge.name, edge.runs, edge.failures) for edge in self.edges]
                raise Differs(f"seed {self.seed}, faults {dict(self.faults)}: {where}; {ends}")
            await asyncio.sleep(_LOOK_S)

    def _check_vectors(self) -> None:
        """A vector never runs ahead of its data. Raises `VectorAhead`."""
        holders = {
            f"replica {replica.replica.src:x}": replica.replica.store.values() for replica in self.replicas
        }
        holders |= {edge.name: edge.values() for edge in self.edges if edge.is_ready}
        holders["chotki.state"] = self.job.values_of_epoch()
        for name, values in holders.items():
            vector = parse_vector(values.get(GLOBAL_VECTOR_KEY, b""))
            for live in self._changes:
                if live.entry.pro > vector.get(live.entry.src, -1):
                    continue
                for key, operand in live.writes:
                    stored = values.get(key, b"")
                    if merge(chr(key[17]), [stored, operand] if stored else [operand]) != stored:
                        raise VectorAhead(f"{name} claims {live.id} and lacks what it wrote to {key.hex()}")

    def _difference(self, expected: dict[bytes, bytes]) -> str | None:
        for edge in self.edges:
            if not edge.is_ready:
                return f"{edge.name} is not ready"
        holders = {
            f"replica {number}": replica.replica.store.values()
            for number, replica in enumerate(self.replicas)
        }
        for edge in self.edges:
            holders[edge.name] = edge.values()
        for name, values in holders.items():
            if values != expected:
                keys = sorted(key for key in values.keys() | expected if values.get(key) != expected.get(key))
                key = keys[0]
                return (
                    f"{name} differs in {len(keys)} keys, first {key.hex()}: "
                    f"{values.get(key, b'').hex()} instead of {expected.get(key, b'').hex()}"
                )
        return None


def _entry(letter: str, offset: int) -> bytes:
    return record("T", record("t", bytes([2 * offset])), letter.encode(), b"\0", b"field")
