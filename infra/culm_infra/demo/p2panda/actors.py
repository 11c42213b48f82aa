"""The peers of the demo, with the latencies of live entries and the costs of set reconciliation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from culm_connectors.p2panda.reference_peer.peer import ReferencePeer
from culm_infra.demo.kit.processes import DemoError
from culm_infra.demo.p2panda.audit import Bytes, EntryKey
from culm_infra.demo.p2panda.plan import DemoLog, DemoPlan, EntryPair, Fork, PeerPlan
from culm_models.bamboo.log_store import LogKey
from culm_models.keys import KeyPair
from culm_models.p2panda.events import PeerEvent, Reconciled, SessionStarted
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.sessions.session import SessionState


@dataclass(frozen=True, slots=True)
class SessionFigures:
    """One session of mode 1 as its peer counted it: messages of set reconciliation only, no entries."""

    peer: str
    chapter: str
    schemas: int
    rounds: int
    bytes_sent: int
    bytes_received: int
    differing_logs: int


@dataclass(slots=True)
class FinishedSessions:
    """All finished sessions, with the chapter in which each ended."""

    chapter: str
    done: list[SessionFigures] = field(default_factory=list)
    _schemas: dict[tuple[str, int], int] = field(default_factory=dict)

    def record(self, peer: str, event: PeerEvent) -> None:
        """Record an event of a peer. Each peer has one remote, so session ids distinguish sessions."""
        if isinstance(event, SessionStarted):
            self._schemas[peer, event.session_id] = len(event.schema_ids)
        elif isinstance(event, Reconciled):
            self.done.append(
                SessionFigures(
                    peer,
                    self.chapter,
                    self._schemas.get((peer, event.session_id), 0),
                    event.rounds,
                    event.bytes_out,
                    event.bytes_in,
                    event.differing_logs,
                )
            )


_MS_PER_S = 1_000

Wanted = dict[LogKey, tuple[str, int]]
"""Schema id and height by log, as published."""


@dataclass(slots=True)
class PeerActor:
    """One peer. ``taken`` counts how often each entry entered its store."""

    plan: PeerPlan
    peer: ReferencePeer
    taken: dict[EntryKey, int] = field(default_factory=dict)
    latencies_ms: list[float] = field(default_factory=list)

    @property
    def repeated(self) -> int:
        """Entries that entered the store more than once."""
        return sum(count - 1 for count in self.taken.values())

    def is_live(self, schema_id: str) -> bool:
        """Whether a session about this schema is in live mode."""
        protocol = self.peer.driver.peer
        return any(
            session.state is SessionState.LIVE and schema_id in session.schemas
            for remote in protocol.remotes
            for session in protocol.sessions(remote)
        )

    def held(self) -> Iterable[tuple[EntryKey, Bytes]]:
        """Yield everything in the peer's store."""
        for (public_key, log_id), height in self.peer.heights().items():
            pairs = self.peer.store.entries(public_key, log_id, 1, height)
            for seq_num, pair in enumerate(pairs, start=1):
                yield (public_key, log_id, seq_num), pair


class LiveClock:
    """Times of publication of live entries, from which their latencies are measured.

    Latencies are measured while ``measuring`` is set. An entry that is published while a connector is down
    arrives after the restart; its latency would not describe the live path.
    """

    def __init__(self) -> None:
        self.published_s: dict[EntryKey, float] = {}
        self.measuring = True

    def publish(self, key: EntryKey) -> None:
        """Record that this entry is published now."""
        if self.measuring:
            self.published_s[key] = time.perf_counter()

    def arrived(self, actor: PeerActor, entries: Sequence[CheckedOperation]) -> None:
        """Record that these entries are in an actor's store now."""
        now_s = time.perf_counter()
        for checked in entries:
            key = (*checked.log, checked.entry.seq_num)
            actor.taken[key] = actor.taken.get(key, 0) + 1
            started_s = self.published_s.get(key)
            if started_s is not None and checked.log[0] != actor.plan.writer.key_pair.public_key:
                actor.latencies_ms.append((now_s - started_s) * _MS_PER_S)


async def enter(
    stack: AsyncExitStack,
    plan: DemoPlan,
    folder: Path,
    seed: int,
    clock: LiveClock,
    sessions: FinishedSessions,
) -> list[PeerActor]:
    """Open every peer with its history; of the forked log only the common part (see `fork_live`)."""
    actors = []
    for index, peer_plan in enumerate(plan.peers):
        key_pair = KeyPair.from_private_key(bytes([index + 1]) * 28 + seed.to_bytes(4, "big"))
        peer = ReferencePeer(
            folder / peer_plan.name, key_pair=key_pair, schemas=peer_plan.schema_ids, durable=False
        )
        actor = PeerActor(peer_plan, await stack.enter_async_context(peer))
        peer.stored_listeners.append(lambda entries, actor=actor: clock.arrived(actor, entries))  # type: ignore[misc]
        peer.listeners.append(partial(sessions.record, peer_plan.name))
        await add(actor, [pair for log in peer_plan.logs for pair in _before_fork(log, plan.fork)])
        await add(actor, peer_plan.writer.entries)
        actors.append(actor)
    return actors


async def fork_live(actors: Sequence[PeerActor], fork: Fork) -> None:
    """Let the two peers with the branches of the forked log continue it at the same moment, live.

    Branches that existed before the peers met could stay unnoticed: peers whose logs have the same height
    exchange nothing.
    """
    branches = [
        [pair for log in actor.plan.logs for pair in log.entries[len(_before_fork(log, fork)) :]]
        for actor in actors
    ]
    await asyncio.gather(*(add(actor, branch[:1]) for actor, branch in zip(actors, branches, strict=True)))
    for actor, branch in zip(actors, branches, strict=True):
        await add(actor, branch[1:])


def _before_fork(log: DemoLog, fork: Fork) -> Sequence[EntryPair]:
    return log.entries[: fork.common] if (log.public_key, log.log_id) == fork.log else log.entries


async def add(actor: PeerActor, pairs: Sequence[EntryPair]) -> None:
    """Store entries at the actor, which sends them to its edge. Raises `DemoError`."""
    for refusal in await actor.peer.add(pairs):
        if refusal is not None:
            raise DemoError(f"{actor.plan.name} refused a piece of its own history: {refusal}")


async def publish(actor: PeerActor, pair: EntryPair, clock: LiveClock) -> EntryKey:
    """Publish one more entry of the actor's own log, live."""
    writer = actor.plan.writer
    key = (writer.key_pair.public_key, writer.log_id, len(writer.entries))
    clock.publish(key)
    (refusal,) = await actor.peer.add([pair])
    if refusal is not None:
        raise DemoError(f"{actor.plan.name} refused its own entry: {refusal}")
    return key


def all_hold(actors: Sequence[PeerActor], wanted: Wanted) -> bool:
    """Whether every actor holds every log of its schemas up to the wanted height."""
    return all(actor.peer.holds(_heights(actor, wanted)) for actor in actors)


def missing_counts(actors: Sequence[PeerActor], wanted: Wanted) -> str:
    """Return in words how many entries each actor is missing."""
    counts = {
        actor.plan.name: sum(
            max(0, height - actor.peer.store.height(*log)) for log, height in _heights(actor, wanted).items()
        )
        for actor in actors
    }
    return ", ".join(f"{name} lacks {count}" for name, count in counts.items() if count)


def _heights(actor: PeerActor, wanted: Wanted) -> dict[LogKey, int]:
    return {log: height for log, (schema, height) in wanted.items() if schema in actor.plan.schema_ids}
