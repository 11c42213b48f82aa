"""The participants on stage: full ones behind bad links, thin clients of those that the pipeline hosts."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from culm_connectors.sds.participants.client import FROM_THE_BEGINNING, SdsClient
from culm_connectors.sds.participants.peer import SdsPeer
from culm_connectors.transport import Address
from culm_infra.demo.sds.bad_network import BadLink, NetworkFaults, bad_link
from culm_infra.demo.sds.book import Book
from culm_infra.demo.sds.plan import SETTINGS, Role, settings_of
from culm_models.keys import KeyPair
from culm_models.sds.events import Event
from culm_models.sds.frames.messages import EventFrame

_KEY_BYTES = 32


@dataclass(slots=True)
class Actor:
    """One participant, its book, and of a full one the link that it has."""

    role: Role
    book: Book
    voice: SdsPeer | SdsClient
    link: BadLink | None = None

    async def say(self, content: bytes, *, ephemeral: bool = False) -> None:
        """Say something in the channel."""
        await self.voice.send(content, ephemeral=ephemeral)


async def enter(
    stack: AsyncExitStack,
    roles: Sequence[Role],
    folder: Path,
    edges: Sequence[Address],
    faults: NetworkFaults,
    seed: int,
) -> list[Actor]:
    """Bring everybody on; each dials its edge."""
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
    role: Role,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    faults: NetworkFaults,
    seed: int,
) -> Actor:
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
    actor = Actor(role, Book(role.participant_id), peer, link)
    peer.listeners.append(lambda event: actor.book.record(_frame(event)))
    await stack.enter_async_context(peer)
    peer.dial(link.address)
    return actor


async def _hosted(
    stack: AsyncExitStack,
    role: Role,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    faults: NetworkFaults,
    seed: int,
) -> Actor:
    client = SdsClient(
        role.channel_id,
        key_pair=key_pair,
        participant_id=role.participant_id,
        profile=role.profile,
        settings=SETTINGS,
        place=FROM_THE_BEGINNING,
    )
    actor = Actor(role, Book(role.participant_id), client)
    client.listeners.append(actor.book.record)
    await stack.enter_async_context(client)
    client.dial(edge)
    return actor


def _frame(event: Event) -> EventFrame:
    """An event of a full participant, in the form that the client of a hosted one receives."""
    details: dict[str, Any] = {one.name: getattr(event, one.name) for one in fields(event)}
    now_ms = time.time_ns() // 1_000_000
    content = details.pop("content", None)
    return EventFrame("", None, event.kind, event.participant_id, event.message_id, now_ms, details, content)
