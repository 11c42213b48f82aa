"""The replicas on stage: each calls its edge, and calls again whenever the connection has ended."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from culm_connectors.chotki.dial import dialled
from culm_connectors.chotki.reference_peer.peer import ReplicaPeer
from culm_connectors.tls_files import TlsFiles
from culm_connectors.transport import Identity, TransportError, TransportSettings
from culm_infra.demo.chotki.edits import Editor
from culm_infra.demo.chotki.plan import RECORDED_ROLE, ROLES, Role
from culm_infra.demo.chotki.recording import RecordedReplica
from culm_models.chotki import events
from culm_models.chotki.replica import Replica

_REDIAL_S = 0.2
_KEY_BYTES = 32


@dataclass(slots=True)
class ReplicaActor:
    """A replica, where it calls, and how often it has been let in."""

    role: Role
    voice: ReplicaPeer | RecordedReplica
    url: str
    sessions: int = 0

    @property
    def replica(self) -> Replica:
        """What it holds."""
        return self.voice.replica


@dataclass(slots=True)
class Cast:
    """Everybody. `latencies_ms` are of live packets, from the replica that made each to every other one."""

    actors: list[ReplicaActor]
    editors: list[Editor]
    recorded: RecordedReplica
    latencies_ms: list[float] = field(default_factory=list)

    def receive_event(self, event: events.SessionEvent) -> None:
        """Something happened at a replica that edits."""
        if isinstance(event, events.PacketApplied):
            now_s = time.monotonic()
            said_s = (editor.said_s[event.id] for editor in self.editors if event.id in editor.said_s)
            self.latencies_ms += [(now_s - one) * 1_000 for one in said_s]


def cast(seed: int, addresses: list[dict[str, str]]) -> Cast:
    """Everybody with an empty store but the recorded replica; `addresses`: of each edge by scheme."""
    peers = [ReplicaPeer(Replica(role.src, name=role.name, seed=seed)) for role in ROLES]
    recorded = RecordedReplica()
    voices: list[ReplicaPeer | RecordedReplica] = [*peers, recorded]
    actors = [
        ReplicaActor(role, voice, addresses[role.edge][role.scheme])
        for role, voice in zip((*ROLES, RECORDED_ROLE), voices, strict=True)
    ]
    editors = [
        Editor(role.name, peer, random.Random(f"{seed} {role.name}"))
        for role, peer in zip(ROLES, peers, strict=True)
    ]
    found = Cast(actors, editors, recorded)
    for peer in peers:
        peer.listeners.append(lambda _, event: found.receive_event(event))
    return found


@contextlib.asynccontextmanager
async def calling(actors: list[ReplicaActor], tls: TlsFiles) -> AsyncIterator[None]:
    """Everybody calls and calls again while the context lasts."""
    tasks = [asyncio.create_task(_keep_calling(actor, tls), name=actor.role.name) for actor in actors]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _keep_calling(actor: ReplicaActor, tls: TlsFiles) -> None:
    identity = Identity.from_private_key(secrets.token_bytes(_KEY_BYTES))
    transport = TransportSettings(datagram_bytes="auto")
    while True:
        with contextlib.suppress(TransportError):
            async with dialled(actor.url, identity, tls, transport) as channel:
                actor.sessions += 1
                await actor.voice.speak(channel)
        await asyncio.sleep(_REDIAL_S)
