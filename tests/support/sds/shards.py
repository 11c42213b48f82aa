"""One shard of SDS channels without Spark: records in, records out, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from culm_models.sds.channel import Channel
from culm_models.sds.frames.messages import Join, Leave, SdsMessage, Send
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_streaming.sds.output_records import OutputRecord, Topic
from culm_streaming.sds.record import Cache
from culm_streaming.sds.settings import ChannelsSettings
from culm_streaming.sds.step import Row, Source, fire, step
from culm_streaming.stateful.job_state import MemoryState
from culm_topics.records import RejectedRecord
from culm_topics.sds.keys import split_owner_key
from culm_topics.sds.records import (
    SdsCommand,
    SdsCommandRecord,
    SdsEventRecord,
    SdsFetchRecord,
    SdsInRecord,
    SdsMessageRecord,
    SdsOutRecord,
    SdsOwnerRecord,
)

SMALL = ChannelsSettings(shards=1, tail_bytes=300, chunk_bytes=1_000, compact_bytes=4_000, finished=64)
START_MS = 1_700_000_000_000


def key_of(number: int) -> bytes:
    """A peer's key."""
    return number.to_bytes(32, "big")


def token(number: int) -> bytes:
    return number.to_bytes(16, "big")


@dataclass
class Shard:
    """Rows are collected, then taken by a batch; what was written is kept by topic."""

    settings: ChannelsSettings = SMALL
    state: MemoryState = field(default_factory=MemoryState)
    cache: Cache = field(default_factory=lambda: Cache(100_000))
    now_ms: int = START_MS
    timer_ms: int | None = None
    rows: list[Row] = field(default_factory=list)
    written: list[OutputRecord] = field(default_factory=list)
    offsets: dict[Source, int] = field(default_factory=dict)
    tokens: int = 0

    def put(self, source: Source, key: bytes | None, value: bytes | None) -> None:
        """A record comes now."""
        offset = self.offsets[source] = self.offsets.get(source, -1) + 1
        self.rows.append(Row(self.now_ms, source, 0, offset, key, value))

    def hear(
        self,
        channel_id: str,
        wire: bytes,
        *,
        profile: Profile = "spec",
        from_store: bool = False,
        key: int = 0,
    ) -> None:
        """A peer's message comes now; `key`: the number of the peer's key."""
        peer_id = None if from_store else key_of(key)
        self.put(Source.IN, channel_id.encode(), SdsInRecord(profile, wire, peer_id).encode())

    def ask(
        self,
        channel_id: str,
        kind: SdsCommand,
        participant_id: str,
        content: bytes | None = None,
        *,
        again: int | None = None,
        profile: Profile = "spec",
        message_id: str | None = None,
        settings: dict[str, bool | int | float | str] | None = None,
        key: int | None = None,
    ) -> int:
        """A command comes now; `again`: the number of a former one, which it repeats. Its number.

        `key`: the number of the key that asked a connector; None: an operator.
        """
        if again is None:
            self.tokens += 1
        number = self.tokens if again is None else again
        record = SdsCommandRecord(
            kind,
            profile,
            participant_id,
            token(number),
            content,
            message_id,
            settings or {},
            None if key is None else key_of(key),
        )
        self.put(Source.COMMANDS, channel_id.encode(), record.encode())
        return number

    def take(self, frame: Join | Leave | SdsMessage | Send, key: int = 0, participant_id: str = "") -> None:
        """What a connector would make of a frame that the peer with this key says now, if it let it in.

        `participant_id`: as whom it has joined.
        """
        if isinstance(frame, SdsMessage):
            self.hear(frame.channel_id, frame.wire, key=key)
        elif isinstance(frame, Send):
            self.ask(frame.channel_id, "send", participant_id, frame.content, key=key)
        elif isinstance(frame, Leave):
            self.ask(frame.channel_id, "leave", participant_id, key=key)
        else:
            self.ask(
                frame.channel_id,
                "join" if frame.hosted else "open",
                frame.participant_id,
                key=key,
                profile=frame.profile,
                settings=dict(frame.settings),
            )

    def batch(self) -> list[OutputRecord]:
        """A micro-batch with what has come, and with the timer where it has expired, as Spark does it."""
        output = step(self.state, sorted(self.rows), self.now_ms, self.settings, self.cache)
        self.rows = []
        self.timer_ms = output.timer_ms
        records = list(output.records)
        fired = output.timer_before_ms
        if fired is not None and fired <= self.now_ms:
            again = fire(self.state, fired, self.now_ms, self.settings, self.cache)
            records += again.records
            self.timer_ms = again.timer_ms
        self.written += records
        return records

    def wait(self, wait_ms: int, *, step_ms: int = 1_000) -> list[OutputRecord]:
        """Batches without records, one every `step_ms`."""
        records: list[OutputRecord] = []
        until_ms = self.now_ms + wait_ms
        while self.now_ms < until_ms:
            self.now_ms = min(self.now_ms + step_ms, until_ms)
            records += self.batch()
        return records

    def events(self, channel_id: str = "c") -> list[SdsEventRecord]:
        return events(self.written, channel_id)


def values(records: Iterable[OutputRecord], topic: Topic, channel_id: str | None = None) -> list[bytes]:
    keys = None if channel_id is None else channel_id.encode()
    return [
        record.value
        for record in records
        if record.topic is topic and record.value is not None and keys in (None, record.key)
    ]


def events(records: Iterable[OutputRecord], channel_id: str = "c") -> list[SdsEventRecord]:
    return [SdsEventRecord.decode(value) for value in values(records, Topic.EVENTS, channel_id)]


def outs(records: Iterable[OutputRecord], channel_id: str = "c") -> list[SdsOutRecord]:
    return [SdsOutRecord.decode(value) for value in values(records, Topic.OUT, channel_id)]


def stored(records: Iterable[OutputRecord], channel_id: str = "c") -> list[SdsMessageRecord]:
    return [SdsMessageRecord.decode(value) for value in values(records, Topic.MESSAGES, channel_id)]


def fetches(records: Iterable[OutputRecord], channel_id: str = "c") -> list[SdsFetchRecord]:
    return [SdsFetchRecord.decode(value) for value in values(records, Topic.FETCH, channel_id)]


def owners(records: Iterable[OutputRecord]) -> dict[tuple[str, str], SdsOwnerRecord]:
    """The newest row of each key of `sds.owners`."""
    return {
        split_owner_key(record.key): SdsOwnerRecord.decode(record.value)
        for record in records
        if record.topic is Topic.OWNERS
    }


def refusals(records: Iterable[OutputRecord]) -> list[RejectedRecord]:
    return [RejectedRecord.decode(value) for value in values(records, Topic.REJECTED)]


def peer(
    participant_id: str,
    channel_id: str = "c",
    *,
    profile: Profile = "spec",
    settings: SdsSettings | None = None,
) -> Channel:
    """A full participant elsewhere."""
    channel = Channel(
        channel_id,
        profile,
        settings or SdsSettings.for_profile(profile),
        now_ms=START_MS,
        seed=participant_id.encode(),
    )
    channel.join(participant_id, START_MS)
    return channel


def content(participant: Channel, text: bytes, now_ms: int) -> bytes:
    """The bytes of a message that a full participant sends now."""
    (outbound,) = participant.send(participant.participants[0], text, now_ms).send
    return outbound.wire


def kinds(records: list[OutputRecord], channel_id: str = "c") -> list[str]:
    """Of the events of a channel, in their order."""
    return [event.kind for event in events(records, channel_id)]


def hosting(*participants: str, settings: dict[str, bool | int | float | str] | None = None) -> Shard:
    """A shard with a channel of these hosted participants."""
    shard = Shard()
    for participant_id in participants:
        shard.ask("c", "join", participant_id, settings=settings)
    shard.batch()
    return shard
