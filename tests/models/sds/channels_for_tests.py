"""A participant of a channel and what it did, for tests of the machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from culm_models.sds.channel import Channel
from culm_models.sds.events import ChannelOutput, Delivered, SdsEvent
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.codec import decode, encode
from culm_models.sds.wire.messages import HistoryEntry, Message, Profile

NOW = 1_763_760_000_000
CHANNEL = "channel"


def settings_of(profile: Profile = "spec", **changed: Any) -> SdsSettings:
    return replace(SdsSettings.for_profile(profile), **{"bloom_capacity": 1_000, **changed})


class Peer:
    """One full participant. `events` are all so far."""

    def __init__(self, name: str, profile: Profile = "spec", *, now_ms: int = NOW, **changed: Any) -> None:
        self.name = name
        self.settings = settings_of(profile, **changed)
        self.channel = Channel(CHANNEL, profile, self.settings, now_ms=now_ms, seed=name.encode())
        self.channel.join(name, now_ms)
        self.events: list[SdsEvent] = []

    def did(self, output: ChannelOutput) -> ChannelOutput:
        self.events += output.events
        return output

    def send(self, content: bytes = b"hello", now_ms: int = NOW, **options: Any) -> bytes:
        """The wire of a new message."""
        return self.did(self.channel.send(self.name, content, now_ms, **options)).send[0].wire

    def receive(self, wire: bytes, now_ms: int = NOW, **options: Any) -> ChannelOutput:
        return self.did(self.channel.receive(wire, now_ms, **options))

    def tick(self, now_ms: int, only: Any = None) -> ChannelOutput:
        return self.did(self.channel.tick(now_ms, only))

    @property
    def log(self) -> tuple[tuple[int, str], ...]:
        return self.channel.status().log

    @property
    def log_ids(self) -> list[str]:
        return [message_id for _, message_id in self.log]

    @property
    def delivered(self) -> list[str]:
        return [event.message_id for event in self.events if isinstance(event, Delivered)]

    def restarted(self, *, whole: bool) -> Peer:
        """The same participant after a restart from what it kept."""
        peer = Peer.__new__(Peer)
        peer.name, peer.settings, peer.events = self.name, self.settings, self.events
        peer.channel = Channel(
            CHANNEL, self.channel.profile, self.settings, now_ms=NOW - 1, seed=self.name.encode()
        )
        journal = self.channel.journal_whole() if whole else self.channel.journal_since(0)
        peer.channel.apply_journal(journal)
        peer.channel.restore_head(self.channel.head())
        return peer


def made(
    message_id: str,
    *parents: str,
    lamport: int = NOW,
    sender: str = "eve",
    content: bytes | None = b"content",
    profile: Profile = "spec",
    history: Iterable[HistoryEntry] = (),
    channel: str = CHANNEL,
    bloom: bytes | None = None,
    asks: Iterable[str] = (),
) -> bytes:
    """The wire of a message that nobody's machine made."""
    entries = (*(HistoryEntry(parent) for parent in parents), *history)
    wanted = tuple(HistoryEntry(each) for each in asks)
    return encode(Message(sender, message_id, channel, lamport, entries, bloom, content, wanted), profile)


def kinds(output: ChannelOutput) -> list[str]:
    return [event.kind for event in output.events]


def read(wire: bytes, profile: Profile = "spec") -> Message:
    return decode(wire, profile)
