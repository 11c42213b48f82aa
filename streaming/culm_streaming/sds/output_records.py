"""What a channel tells, as records: events, messages to broadcast and to fetch, what was refused."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, Literal, NamedTuple, cast

from culm_models.sds.events import Delivered, Event, Fetch, Outbound, Received, Sent
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.records import rejection
from culm_topics.sds.records import (
    MAX_FETCH_ENTRIES,
    SdsEventKind,
    SdsEventRecord,
    SdsFetchRecord,
    SdsOutRecord,
)

_PLAIN = frozenset({"kind", "message_id", "participant_id", "content"})
_MOST_ITEMS = 1_000


class Topic(StrEnum):
    """Where a record goes."""

    OUT = "sds.out"
    MESSAGES = "sds.messages"
    EVENTS = "sds.events"
    FETCH = "sds.fetch"
    ACKS = "sds.acks"
    REJECTED = "rejected"
    OWNERS = "sds.owners"


class OutputRecord(NamedTuple):
    """One record to write; a value of None is a tombstone."""

    topic: Topic
    key: bytes
    value: bytes | None


def kept(event: Event) -> Event | None:
    """What of an event is kept for good; None: nothing.

    Ephemeral messages are stored nowhere. Connectors bring them to whoever is there; that a command for one
    was done is told, without what it said.
    """
    if isinstance(event, Received) and event.message_kind == "ephemeral":
        return None
    if isinstance(event, Delivered) and event.ephemeral:
        return None
    if isinstance(event, Sent) and event.ephemeral:
        return replace(event, content=b"")
    return event


@dataclass(frozen=True, slots=True)
class HostingEvent:
    """The participant is hosted (`joined`), or is not (`left`): from now on, or already."""

    kind: Literal["joined", "left"]
    participant_id: str
    message_id: str = ""


def event_value(event: Event | HostingEvent, number: int, time_ms: int, details: dict[str, Any]) -> bytes:
    """The record of an event; `details` are told beside its own fields."""
    for name in _names(type(event)):
        value = _detail(getattr(event, name))
        if value is not None:
            details[name] = value
    return SdsEventRecord(
        number,
        cast(SdsEventKind, event.kind),
        event.participant_id,
        event.message_id,
        time_ms,
        details,
        getattr(event, "content", None),
    ).encode()


_NAMES: dict[type[Event] | type[HostingEvent], tuple[str, ...]] = {}


def _names(kind: type[Event] | type[HostingEvent]) -> tuple[str, ...]:
    names = _NAMES.get(kind)
    if names is None:
        names = _NAMES[kind] = tuple(field.name for field in fields(kind) if field.name not in _PLAIN)
    return names


def _detail(value: Any) -> Any:
    """A field as a detail: messages by their ids, of long lists the beginning; None where it says nothing."""
    if type(value) is tuple:
        texts = [item.message_id if isinstance(item, HistoryEntry) else item for item in value[:_MOST_ITEMS]]
        return tuple(texts) or None
    return value


def out_value(profile: Profile, outbound: Outbound) -> bytes:
    """The record of a message to broadcast."""
    return SdsOutRecord(
        profile, outbound.kind, outbound.participant_id, outbound.message_id, outbound.wire
    ).encode()


def fetch_values(profile: Profile, fetch: Fetch) -> Iterator[bytes]:
    """The records of messages to be retrieved."""
    # Profile nim lets a message refer to one without an id; nobody has that.
    wanted = tuple(entry for entry in fetch.entries if entry.message_id)
    for start in range(0, len(wanted), MAX_FETCH_ENTRIES):
        entries = wanted[start : start + MAX_FETCH_ENTRIES]
        yield SdsFetchRecord(profile, entries, fetch.attempt).encode()


def rejected(
    code: str, reason: str, *, wire: bytes | None, peer_id: bytes | None, source: tuple[str, int, int]
) -> OutputRecord:
    """The record of something refused."""
    value = rejection(code, reason, entry=wire, brought_by=peer_id, source=source)
    return OutputRecord(Topic.REJECTED, b"", value.encode())
