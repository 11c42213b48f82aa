"""The base of the scenes: the logs of one author, peers with folders, and processes that print JSON."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from culm_connectors.bamboo_p2p.author import publish
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.remote_peer import RemotePeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_connectors.url import Url
from culm_infra.demo.bamboo.json_process import Filter, JsonProcess, Line, json_process
from culm_infra.demo.bamboo.size import BambooDemoSize
from culm_infra.demo.kit.stage import DemoStage
from culm_infra.stack.ports import HOST
from culm_models.bamboo.entry import lipmaa, needs_skiplink, sign_entry, spine_number_from
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.events import BambooP2pEvent
from culm_models.bamboo_p2p.peer import NewEntry
from culm_models.keys import KeyPair

AUTHOR: Final = KeyPair.generate(b"the author of the logs of the demo of Bamboo")
LONG_LOG: Final[LogKey] = (AUTHOR.public_key, 0)


def author_log(log_id: int) -> LogKey:
    """Return the key of one of the author's logs."""
    return AUTHOR.public_key, log_id


def reading(number: int) -> bytes:
    """Return a payload of the long log, in the form of a gauge's reading."""
    level_mm = 2_000 + number * 7_919 % 613
    return b'{"gauge":"upper mill","reading":%d,"level_mm":%d,"battery_mv":%d}' % (
        number,
        level_mm,
        3_300 - number % 97,
    )


def provable(height: int) -> int:
    """Return the newest entry of a log whose whole pool exists."""
    spine = spine_number_from(height)
    return spine if spine == height else (spine - 1) // 3


def noise(size: int, seed: int) -> bytes:
    """Return a payload that does not compress."""
    return random.Random(seed).randbytes(size)


def signed(log_id: int, payloads: Iterable[bytes]) -> list[NewEntry]:
    """Sign a log with its payloads, from its first entry on."""
    hashes: dict[int, bytes] = {}
    entries = []
    for seq_num, payload in enumerate(payloads, 1):
        entry = sign_entry(
            AUTHOR,
            log_id,
            seq_num,
            payload,
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
            flavour=YAMF,
        )
        hashes[seq_num] = YAMF.hash(entry)
        entries.append(NewEntry(entry, payload))
    return entries


def without_payload(entry: NewEntry, *payload_parts: tuple[int, bytes]) -> NewEntry:
    """Return the entry alone, or with unverified parts of its payload."""
    return NewEntry(entry.entry_bytes, None, payload_parts)


_STEP_S: Final = 0.02


@dataclass(slots=True)
class BambooActor:
    """A peer on the stage, with its events counted by kind."""

    name: str
    peer: BambooPeer
    counts: Counter[str] = field(default_factory=Counter)
    by_remote: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Events by connection name and kind."""
    remotes: list[RemotePeer] = field(default_factory=list)
    """All connections in the order in which they were made."""
    pieces: int = 0
    """Pieces that other peers have notified."""
    at_s: dict[tuple[str, LogKey, int], float] = field(default_factory=dict)
    """Time at which an entry or a payload was verified, by kind, log and sequence number."""
    _events: dict[tuple[str, LogKey, int], asyncio.Event] = field(default_factory=dict)

    def receive_event(self, remote: RemotePeer, event: BambooP2pEvent) -> None:
        """Count an event of a connection."""
        self.counts[event.kind] += 1
        self.by_remote[remote.name, event.kind] += 1
        if remote not in self.remotes:
            self.remotes.append(remote)
        self.pieces += getattr(event, "pieces", 0)
        log, seq_num = getattr(event, "log", None), getattr(event, "seq_num", None)
        if log is not None and seq_num is not None:
            self.at_s.setdefault((event.kind, log, seq_num), time.monotonic())
            self.event((event.kind, log, seq_num)).set()

    def event(self, key: tuple[str, LogKey, int]) -> asyncio.Event:
        """Return the event that is set once an entry or a payload is verified."""
        return self._events.setdefault(key, asyncio.Event())

    async def payloads(self, log: LogKey) -> int:
        """Return the number of verified payloads of a log."""
        return await self.peer.read(lambda store: sum(end - start for start, end in store.payloads(log)))

    async def holds_payloads(self, log: LogKey, first: int, last: int) -> bool:
        """Whether all payloads of a range are here and verified."""
        return await self.peer.read(lambda store: store.payloads(log).covers(first, last + 1))


@dataclass(slots=True)
class BambooStage:
    """The stage of the scenes. Every peer has its own folder below the demo's."""

    stage: DemoStage
    size: BambooDemoSize
    actors: list[BambooActor] = field(default_factory=list)
    processes: list[JsonProcess] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stage.watched.append(self.progress)

    @property
    def directory(self) -> Path:
        """The demo's folder."""
        return self.stage.directory

    def progress(self) -> object:
        """Return a value that changes with every event, transferred byte and printed line."""
        sessions = [remote.session for actor in self.actors for remote in actor.remotes]
        return (
            [actor.counts.total() + actor.pieces for actor in self.actors],
            [session.received_bytes + session.sent_bytes for session in sessions],
            [process.printed for process in self.processes],
        )

    @asynccontextmanager
    async def actor(
        self, name: str, settings: BambooPeerSettings | None = None
    ) -> AsyncIterator[BambooActor]:
        """Open a peer of a folder, which is created if it is missing."""
        folder = self.directory / name
        async with BambooPeer.open(folder, flavour=YAMF, settings=settings) as peer:
            actor = BambooActor(name, peer)
            peer.listeners.append(actor.receive_event)
            self.actors.append(actor)
            yield actor

    def write_log(self, name: str, log_id: int, payloads: Iterable[bytes]) -> LogKey:
        """Publish to a folder that no peer has open. Returns the log."""
        store = FolderStore(self.directory / name, YAMF)
        try:
            with store.exclusively():
                for payload in payloads:
                    publish(store, AUTHOR, log_id, payload)
        finally:
            store.close()
        return AUTHOR.public_key, log_id

    @asynccontextmanager
    async def farm(self) -> AsyncIterator[tuple[BambooActor, Url]]:
        """Open the peer that has the long log. Yields it with its address; the first call signs the log."""
        entries = self.size.entries
        if not (self.directory / "farm").exists():
            self.stage.show(f"signing a log of {entries:,} entries")
            payloads = (reading(number) for number in range(1, entries + 1))
            await asyncio.to_thread(self.write_log, "farm", LONG_LOG[1], payloads)
        async with self.actor("farm") as actor, actor.peer.listen(Url("tcp", HOST, 0)) as url:
            yield actor, url

    @asynccontextmanager
    async def process(
        self, name: str, arguments: Sequence[str], keeps: Filter = lambda _: True
    ) -> AsyncIterator[JsonProcess]:
        """Run a separate process; its standard error goes to a file in the demo's directory."""
        output = self.directory / "output" / f"{name.replace(' ', '-')}.log"
        async with json_process(name, arguments, output, keeps) as child:
            self.processes.append(child)
            yield child

    async def line(self, process: JsonProcess, holds: Filter, what: str) -> Line:
        """Return the first matching line of a process as soon as it was read. Raises `DemoError`."""
        return await self.stage.within(process.line(holds, what), what)

    async def until_event(self, actor: BambooActor, event: tuple[str, LogKey, int], what: str) -> None:
        """Wait until a peer has verified an entry or a payload. Raises `DemoError`."""
        await self.stage.within(actor.event(event).wait(), what)

    async def until(self, holds: Callable[[], bool | Awaitable[bool]], what: str) -> None:
        """Check repeatedly until the condition holds. Raises `NotReached` if nothing changes for too long."""
        await self.stage.until(holds, what, step_s=_STEP_S)
