"""The participants: full ones behind bad links, and clients of hosted ones; and what each received."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from culm_connectors.sds.participants.client import FROM_THE_BEGINNING, SdsClient
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address
from culm_infra.demo.sds.bad_network import BadLink, NetworkFaults, bad_link
from culm_infra.demo.sds.plan import SETTINGS, ParticipantRole, settings_of
from culm_models.keys import KeyPair
from culm_models.sds.events import SdsEvent
from culm_models.sds.frames.messages import EventFrame
from culm_topics.sds.records import SdsEventRecord

MessageFields = tuple[int, str, bytes]
"""(Lamport timestamp, sender id, content) of a message in a log."""


@dataclass(slots=True)
class Transcript:
    """Record of a participant's events in one form, so that full and hosted participants are comparable."""

    participant_id: str
    messages: dict[str, MessageFields] = field(default_factory=dict)
    delivered: Counter[str] = field(default_factory=Counter)
    ephemeral: Counter[str] = field(default_factory=Counter)
    sent_ms: dict[str, int] = field(default_factory=dict)
    heard_ms: dict[str, int] = field(default_factory=dict)
    gave_up: set[str] = field(default_factory=set)
    kinds: Counter[str] = field(default_factory=Counter)
    """Events of each kind."""
    resent: int = 0
    """Number of re-sends of messages that are acknowledged now."""

    def record(self, event: EventFrame | SdsEventRecord) -> None:
        """Record one event. A sent message is held at once; the channel also delivers it to siblings."""
        details: Mapping[str, Any] = event.details
        self.kinds[event.kind] += 1
        if event.kind == "acknowledged":
            self.resent += int(details.get("attempts", 0))
        if event.kind in {"sent", "delivered"}:
            self._hold(event, details)
        elif event.participant_id != self.participant_id:
            return
        elif event.kind == "acknowledged":
            self.heard_ms.setdefault(event.message_id, event.time_ms)
        elif event.kind == "gave_up":
            self.gave_up.add(event.message_id)

    def _hold(self, event: EventFrame | SdsEventRecord, details: Mapping[str, Any]) -> None:
        own = event.kind == "sent" and event.participant_id == self.participant_id
        if details.get("ephemeral"):
            if not own:
                self.ephemeral[event.message_id] += 1
            return
        sender = event.participant_id or "" if event.kind == "sent" else str(details["sender_id"])
        self.messages[event.message_id] = (int(details["lamport_timestamp"]), sender, event.content or b"")
        if event.kind == "delivered":
            self.delivered[event.message_id] += 1
        if own:
            self.sent_ms.setdefault(event.message_id, event.time_ms)

    def log(self) -> list[tuple[int, str, str, bytes]]:
        """Return (Lamport timestamp, message id, sender id, content) in the order that every log must
        have.
        """
        return sorted(
            (
                (lamport, message_id, sender, content)
                for message_id, (lamport, sender, content) in self.messages.items()
            ),
            key=lambda row: (row[0], row[1].encode()),
        )

    @property
    def repeated(self) -> int:
        """Deliveries of messages beyond the first one."""
        return sum(count - 1 for count in self.delivered.values())

    @property
    def latencies_ms(self) -> list[float]:
        """Milliseconds from sending an own message to its acknowledgement."""
        return [
            float(self.heard_ms[message_id] - sent)
            for message_id, sent in self.sent_ms.items()
            if message_id in self.heard_ms
        ]


_KEY_BYTES = 32


@dataclass(slots=True)
class ParticipantActor:
    """One participant with its transcript; a full one also has a link."""

    role: ParticipantRole
    transcript: Transcript
    endpoint: SdsPeer | SdsClient
    link: BadLink | None = None

    async def send(self, content: bytes, *, ephemeral: bool = False) -> None:
        """Send a message to the channel."""
        await self.endpoint.send(content, ephemeral=ephemeral)


async def enter(
    stack: AsyncExitStack,
    roles: Sequence[ParticipantRole],
    folder: Path,
    edges: Sequence[Address],
    faults: NetworkFaults,
    seed: int,
) -> list[ParticipantActor]:
    """Open all participants; each dials its edge."""
    chance = random.Random(seed)
    actors = []
    for role in roles:
        key_pair = KeyPair.from_private_key(chance.randbytes(_KEY_BYTES))
        enter_one = _hosted if role.hosted else _full
        actor = await enter_one(
            stack, role, folder, key_pair, edges[role.edge], faults, chance.getrandbits(32)
        )
        actors.append(actor)
    return actors


async def _full(
    stack: AsyncExitStack,
    role: ParticipantRole,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    faults: NetworkFaults,
    seed: int,
) -> ParticipantActor:
    link = await stack.enter_async_context(bad_link(edge, faults, seed))
    peer = SdsPeer(
        folder / role.channel_id / role.participant_id,
        role.channel_id,
        key_pair=key_pair,
        participant_id=role.participant_id,
        profile=role.profile,
        settings=settings_of(role.profile),
        durable=False,
    )
    actor = ParticipantActor(role, Transcript(role.participant_id), peer, link)
    peer.listeners.append(lambda event: actor.transcript.record(_frame(event)))
    await stack.enter_async_context(peer)
    peer.dial(link.address)
    return actor


async def _hosted(
    stack: AsyncExitStack,
    role: ParticipantRole,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    faults: NetworkFaults,
    seed: int,
) -> ParticipantActor:
    client = SdsClient(
        role.channel_id,
        key_pair=key_pair,
        participant_id=role.participant_id,
        profile=role.profile,
        settings=SETTINGS,
        position=FROM_THE_BEGINNING,
    )
    actor = ParticipantActor(role, Transcript(role.participant_id), client)
    client.listeners.append(actor.transcript.record)
    await stack.enter_async_context(client)
    client.dial(edge)
    return actor


def _frame(event: SdsEvent) -> EventFrame:
    """Convert an event of a full participant to the form that the client of a hosted one receives."""
    details: dict[str, Any] = {field_.name: getattr(event, field_.name) for field_ in fields(event)}
    now_ms = time.time_ns() // 1_000_000
    content = details.pop("content", None)
    return EventFrame("", None, event.kind, event.participant_id, event.message_id, now_ms, details, content)
