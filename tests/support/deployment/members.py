"""Peers of an end-to-end test, the logs that they write, and the audit at its end.

Every test has a schema of its own, so that tests share a deployment and nothing else. The audit is the same
for all: what was signed is at every peer and on `logs`, byte for byte, nothing lost, nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_connectors.p2panda.settings import Mode, SessionSettings
from culm_infra.demo.p2panda.audit import Bytes, EntryKey, compare
from culm_infra.demo.p2panda.plan import DemoLogWriter, EntryPair, Fork, make_fields, make_writer, schema_id
from culm_infra.patience import Patience
from culm_models.bamboo.checks import SoundEntry
from culm_models.bamboo.log_store import LogKey
from culm_models.keys import KeyPair
from culm_models.p2panda.sessions.session import SessionState
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer
from culm_topics.logs.version_vectors import Vectors, read_vectors
from culm_topics.records import HEIGHTS_PEER_ID
from tests.support.deployment.world import DEADLINE_S, Edge, World

NO_FORK = Fork(bytes(32), 0, 0)
_POLL_S = 0.2
# Reading whole topics again takes a core from the jobs that it waits for: a third of the time at most.
_PAUSE_RATIO = 2.0


def new_schema(name: str) -> str:
    """A schema that nothing else in the deployment knows."""
    return schema_id(f"{name}_{uuid.uuid4().hex[:8]}")


def write_logs(seed: int, schema: str, lengths: Iterable[int]) -> list[DemoLogWriter]:
    """Logs by new authors; the seed is salted with the schema, so that tests do not share authors."""
    source = random.Random(f"{seed} {schema}")
    return [make_writer(source, number, schema, length) for number, length in enumerate(lengths)]


def log_of(writer: DemoLogWriter) -> LogKey:
    return writer.key_pair.public_key, writer.log_id


def heights(writers: Iterable[DemoLogWriter]) -> dict[LogKey, int]:
    """How far every log is written."""
    return {log_of(writer): len(writer.entries) for writer in writers}


def signed(writers: Iterable[DemoLogWriter]) -> dict[EntryKey, Bytes]:
    """Everything that was written, by its place."""
    return {
        (*log_of(writer), seq_num): pair
        for writer in writers
        for seq_num, pair in enumerate(writer.entries, start=1)
    }


@dataclass
class Member:
    """A reference peer, and how often it took each entry into its store."""

    name: str
    peer: ReferencePeer
    taken: Counter[EntryKey] = field(default_factory=Counter)
    dialling: asyncio.Task[None] | None = None

    def dial(self, edge: Edge) -> None:
        """Keep a connection to this edge from now on."""
        assert self.dialling is None, "one edge at a time"
        self.dialling = self.peer.dial(edge.address, edge.peer_id)

    async def leave(self) -> None:
        """Give up the edge."""
        assert self.dialling is not None, "dialled before"
        self.dialling.cancel()
        await asyncio.wait({self.dialling})
        self.dialling = None

    async def add(self, pairs: Sequence[EntryPair]) -> None:
        """Take entries that are new to all; live sessions carry them on."""
        refusals = [refusal for refusal in await self.peer.add(pairs) if refusal is not None]
        assert not refusals, f"{self.name}: {refusals[0]}"

    async def write(self, writer: DemoLogWriter, count: int = 1) -> None:
        """Write on in a log of one's own."""
        source = random.Random(f"{self.name} {len(writer.entries)}")
        await self.add([writer.append(make_fields(source)) for _ in range(count)])

    def is_live(self, schema: str) -> bool:
        """Whether a session about this schema is in live mode."""
        protocol = self.peer.driver.peer
        return any(
            session.state is SessionState.LIVE and schema in session.schemas
            for remote in protocol.remotes
            for session in protocol.sessions(remote)
        )

    def lacks(self, wanted: Mapping[LogKey, int]) -> int:
        """How many entries it does not hold."""
        return sum(max(0, height - self.peer.store.height(*log)) for log, height in wanted.items())

    def held(self, schema: str) -> Iterable[tuple[EntryKey, Bytes]]:
        """All that it holds of a schema."""
        for log, height in self.peer.heights([schema]).items():
            for seq_num, pair in enumerate(self.peer.store.entries(*log, 1, height), start=1):
                yield (*log, seq_num), pair


@contextlib.asynccontextmanager
async def member(
    folder: Path, name: str, schemas: Iterable[str], *, mode: Mode = "auto"
) -> AsyncIterator[Member]:
    """A peer with a new key; nothing is flushed to the disk."""
    key_pair = KeyPair.generate(f"{name} {uuid.uuid4().hex} of Culm's tests".encode())
    async with ReferencePeer(
        folder / name,
        key_pair=key_pair,
        schemas=schemas,
        durable=False,
        sessions=SessionSettings(mode=mode),
    ) as peer:
        new_member = Member(name, peer)

        def count(entries: Sequence[SoundEntry]) -> None:
            new_member.taken.update((*checked.log, checked.entry.seq_num) for checked in entries)

        peer.stored_listeners.append(count)
        yield new_member


@contextlib.asynccontextmanager
async def members(folder: Path, schema: str, count: int) -> AsyncIterator[list[Member]]:
    """Several peers that care for one schema."""
    async with contextlib.AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(member(folder, f"peer-{number}", [schema]))
            for number in range(count)
        ]


async def publish_slowly(member: Member, writer: DemoLogWriter, count: int, pause_s: float = 0.01) -> None:
    """Publish entries one by one, so that a fault has something to hit."""
    for _ in range(count):
        await member.write(writer)
        await asyncio.sleep(pause_s)


async def until_live(world: World, schema: str, *peers: Member) -> None:
    """Wait until these have a live session."""
    await world.until(lambda: all(peer.is_live(schema) for peer in peers), "live sessions")


async def until_all_hold(world: World, writers: Sequence[DemoLogWriter], *peers: Member) -> None:
    """Wait until these hold all that was written."""
    wanted = heights(writers)

    def lacking() -> dict[str, int]:
        return {peer.name: lack for peer in peers if (lack := peer.lacks(wanted))}

    await world.until(lambda: not lacking(), lambda: f"entries that are lacking: {lacking()}")


def read_logs(kafka: KafkaSettings, schema: str) -> list[tuple[EntryKey, Bytes]]:
    """What `LogConsumer` yields of a schema, up to the end of `logs`."""
    with LogConsumer(kafka, schema_ids=[schema], stop_at_end=True) as consumer:
        return [
            ((entry.public_key, entry.log_id, entry.seq_num), (entry.entry_bytes, entry.operation_bytes))
            for entry in consumer
        ]


async def audit(
    world: World, schema: str, writers: Sequence[DemoLogWriter], peers: Sequence[Member], fork: Fork = NO_FORK
) -> Vectors:
    """Nothing lost, nothing twice, every byte the same: at the peers, on `logs`, in `version-vectors`.

    `writers` are all logs of the schema; of a forked one only what is common. Returns the vectors at rest.
    """
    await until_all_hold(world, writers, *peers)
    wanted = signed(writers)
    logs = heights(writers)
    seen: object = None
    patience = Patience(DEADLINE_S, lambda: seen)
    while True:
        began_s = time.monotonic()
        in_logs = compare(wanted, await asyncio.to_thread(read_logs, world.kafka, schema), fork)
        vectors = await asyncio.to_thread(read_vectors, world.kafka)
        wrong = _wrong_vectors(vectors, logs, peers, fork)
        if not in_logs.lost and not wrong:
            break
        world.check()
        seen = (in_logs, wrong)
        patience.check(f"{in_logs}; version-vectors differ from what is held: {wrong}")
        await asyncio.sleep(max(_POLL_S, _PAUSE_RATIO * (time.monotonic() - began_s)))
    assert (in_logs.lost, in_logs.repeated, in_logs.differing) == (0, 0, 0), in_logs
    assert in_logs.held == in_logs.wanted
    assert not wrong, f"version-vectors differ from what is held: {wrong}"
    for peer in peers:
        holding = compare(wanted, peer.held(schema), fork)
        assert (holding.lost, holding.differing) == (0, 0), (peer.name, holding)
        assert holding.held == holding.wanted
        assert not (peer.taken - Counter(set(peer.taken))), f"{peer.name} stored entries twice"
    return vectors


def _wrong_vectors(
    vectors: Vectors, logs: Mapping[LogKey, int], peers: Sequence[Member], fork: Fork
) -> dict[str, int]:
    """How many logs are not at their height: in the row of the heights themselves, and in every peer's."""
    rows = {"heights": HEIGHTS_PEER_ID} | {peer.name: peer.peer.peer_id for peer in peers}
    counts = {
        name: sum(vectors.height(peer_id, log) != height for log, height in logs.items() if log != fork.log)
        for name, peer_id in rows.items()
    }
    return {name: count for name, count in counts.items() if count}
