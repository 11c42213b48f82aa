"""Interfaces between the SDS driver and its backbone: Kafka in a connector, memory in tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeAlias, TypeVar

from culm_connectors.sds.channels.owners import ChannelOwners
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.sds.records import SdsCommandRecord, SdsEventRecord, SdsFetchRecord, SdsInRecord
from culm_topics.sds.store import StoredMessage

Stored = TypeVar("Stored")


@dataclass(frozen=True, slots=True)
class OutgoingRecord:
    """A record for the job, and for the other connectors, about one channel."""

    channel_id: str
    record: SdsInRecord | SdsCommandRecord


@dataclass(frozen=True, slots=True)
class Page(Generic[Stored]):
    """The next page of a channel's history, bounded in bytes, and the cursor after it.

    `present`: this was the last page when it was read; later messages arrive live. `end`: the cursor at which
    the history ended when reading started.
    """

    items: tuple[Stored, ...]
    cursor: bytes
    present: bool
    end: bytes = b""


EventAt: TypeAlias = tuple[SdsEventRecord, bytes]
"""An event and the cursor after it."""


class ChannelListener(Protocol):
    """Receives the messages of others in followed channels. Called on the event loop; must not block."""

    def received(
        self, channel_id: str, profile: Profile, wire: bytes, retrieval_hint: bytes | None = None
    ) -> None:
        """A message came from a peer of another connector or from a participant of the job."""
        ...

    def happened(self, channel_id: str, event: SdsEventRecord, cursor: bytes) -> None:
        """The job reports an event."""
        ...

    def wanted(self, channel_id: str, record: SdsFetchRecord) -> None:
        """The job is missing messages."""
        ...

    def owned(self, channel_id: str, participant_id: str) -> None:
        """The owner of a participant id has become known, or that of the channel itself ("")."""
        ...


class Backbone(Protocol):
    """Storage and exchange of channels. `owners` is complete for channels that are followed."""

    owners: ChannelOwners

    async def follow(self, channel_id: str) -> None:
        """Follow a channel, which is received when this returns, until `unfollow` was called as often."""
        ...

    def unfollow(self, channel_id: str) -> None:
        """A subscriber left the channel."""
        ...

    async def put(self, batch: Sequence[OutgoingRecord]) -> None:
        """Store records, in order; they are durable when this returns. A raised error ends the driver."""
        ...

    def history(
        self, channel_id: str, cursor: bytes, end: bytes = b""
    ) -> AsyncGenerator[Page[StoredMessage], None]:
        """Yield the channel's stored messages, from a cursor (empty: all) to `end` (empty: the present).

        Closing the generator closes the clients that it uses. A caller that must wait between two pages
        closes it and continues later from the cursor of the last page to its end.
        """
        ...

    def events(
        self, channel_id: str, cursor: bytes, expected: int | None = None
    ) -> AsyncGenerator[Page[EventAt], None]:
        """Yield the channel's events from a cursor (empty: all) to the present; some may come twice.

        `expected`: the number of the first event, if it is known; otherwise any event may be the first.
        """
        ...

    def present(self, channel_id: str) -> bytes:
        """Return the cursor of the channel's events before which no event arrives live any more."""
        ...

    async def find(self, channel_id: str, entries: Sequence[HistoryEntry]) -> Sequence[StoredMessage]:
        """Return those messages that the store holds."""
        ...

    async def heads(self, channel_ids: Sequence[str]) -> Mapping[str, Sequence[tuple[int, str]]]:
        """Return the newest known messages of channels in the store as (Lamport timestamp, id)."""
        ...

    def mark(self, channel_id: str) -> bytes | None:
        """Return a cursor of the store before which all was received live; None if it is unknown."""
        ...
