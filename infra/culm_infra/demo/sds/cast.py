"""The participants on stage: full ones behind bad links, thin clients of those that the pipeline hosts."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from culm_connectors.sds.client import FROM_THE_BEGINNING, SdsClient
from culm_connectors.sds.frames import Event as Frame
from culm_connectors.sds.peer import SdsPeer
from culm_connectors.transport import Address
from culm_infra.demo.sds.book import Book
from culm_infra.demo.sds.plan import SETTINGS, Part, settings_of
from culm_infra.demo.sds.weather import BadLink, Weather, bad_link
from culm_models.keys import KeyPair
from culm_models.sds.events import Event

_KEY_BYTES = 32


@dataclass(slots=True)
class Actor:
    """One participant, its book, and of a full one the link that it has."""

    part: Part
    book: Book
    voice: SdsPeer | SdsClient
    link: BadLink | None = None

    async def say(self, content: bytes, *, ephemeral: bool = False) -> None:
        """Say something in the channel."""
        await self.voice.send(content, ephemeral=ephemeral)


async def enter(
    stack: AsyncExitStack,
    parts: Sequence[Part],
    folder: Path,
    edges: Sequence[Address],
    weather: Weather,
    seed: int,
) -> list[Actor]:
    """Bring everybody on; each dials its edge."""
    chance = random.Random(seed)
    actors = []
    for part in parts:
        key_pair = KeyPair.from_private_key(chance.randbytes(_KEY_BYTES))
        enter_one = _hosted if part.hosted else _full
        actor = await enter_one(
            stack, part, folder, key_pair, edges[part.edge], weather, chance.getrandbits(32)
        )
        actors.append(actor)
    return actors


async def _full(
    stack: AsyncExitStack,
    part: Part,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    weather: Weather,
    seed: int,
) -> Actor:
    link = await stack.enter_async_context(bad_link(edge, weather, seed))
    peer = SdsPeer(
        folder / part.channel_id / part.participant_id,
        part.channel_id,
        key_pair=key_pair,
        participant_id=part.participant_id,
        profile=part.profile,
        settings=settings_of(part.profile),
        durable=False,
    )
    actor = Actor(part, Book(part.participant_id), peer, link)
    peer.listeners.append(lambda event: _heard(actor, event))
    await stack.enter_async_context(peer)
    peer.dial(link.address)
    return actor


async def _hosted(
    stack: AsyncExitStack,
    part: Part,
    folder: Path,
    key_pair: KeyPair,
    edge: Address,
    weather: Weather,
    seed: int,
) -> Actor:
    client = SdsClient(
        part.channel_id,
        key_pair=key_pair,
        participant_id=part.participant_id,
        profile=part.profile,
        settings=SETTINGS,
        place=FROM_THE_BEGINNING,
    )
    actor = Actor(part, Book(part.participant_id), client)
    client.listeners.append(lambda frame: _told(actor, frame))
    await stack.enter_async_context(client)
    client.dial(edge)
    return actor


def _heard(actor: Actor, event: Event) -> None:
    """A full participant's machine says something."""
    details: dict[str, Any] = {one.name: getattr(event, one.name) for one in fields(event)}
    now_ms = time.time_ns() // 1_000_000
    content = details.pop("content", None)
    actor.book.hear(event.kind, event.participant_id, event.message_id, now_ms, details, content)


def _told(actor: Actor, frame: Frame) -> None:
    """The pipeline tells the client of a hosted participant something."""
    actor.book.hear(
        frame.kind, frame.participant_id, frame.message_id, frame.time_ms, frame.details, frame.content
    )
