"""What a channel knows and waits for: as one record for people, and in part for drivers.

What a driver asks again and again has a price that does not depend on what the channel holds.
"""

from dataclasses import dataclass
from typing import Final

from culm_models.sds.channel_state import ChannelState
from culm_models.sds.events import OutgoingState
from culm_models.sds.wire.messages import HistoryEntry


@dataclass(frozen=True, slots=True)
class OutgoingStatus:
    """An unacknowledged message; `evidence`: senders whose filters hold it."""

    participant_id: str
    message_id: str
    state: OutgoingState
    evidence: tuple[str, ...]
    attempts: int
    next_due_ms: int | None


@dataclass(frozen=True, slots=True)
class WaitingStatus:
    """A message that waits; `missing`: ids of its causal history that are not in the log."""

    message_id: str
    missing: tuple[str, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class MissingStatus:
    """A message that is not held; `attempts`: fetches so far."""

    entry: HistoryEntry
    since_ms: int
    attempts: int
    next_due_ms: int | None
    lost_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """One channel. `log`: (Lamport, id) in order; `log_start`: messages that have left it at its front."""

    participants: tuple[str, ...]
    lamport_timestamp: int
    log: tuple[tuple[int, str], ...]
    log_start: int
    outgoing: tuple[OutgoingStatus, ...]
    incoming: tuple[WaitingStatus, ...]
    missing: tuple[MissingStatus, ...]
    lost: tuple[str, ...]
    quarantined: tuple[str, ...]
    bloom_filter: bytes
    journal_mark: int
    next_due_ms: int | None


def status_of(parts: ChannelState, next_due_ms: int | None) -> Status:
    """The record of a channel as it is now."""
    delivery = parts.delivery
    return Status(
        participants=tuple(parts.participants),
        lamport_timestamp=delivery.lamport,
        log=tuple(delivery.log.keys()),
        log_start=delivery.log.left,
        outgoing=tuple(
            OutgoingStatus(
                one.participant_id, one.message_id, one.state, one.evidence, one.attempts, one.next_due_ms
            )
            for one in parts.outgoing
        ),
        incoming=tuple(
            WaitingStatus(held.message_id, tuple(held.unmet), held.since_ms) for held in delivery.waiting
        ),
        missing=tuple(
            MissingStatus(
                one.entry,
                one.since_ms,
                one.attempts,
                one.next_due_ms,
                None if parts.settings.lost_timeout_ms is None else one.lost_at_ms,
            )
            for one in delivery.missing
        ),
        lost=tuple(delivery.lost),
        quarantined=tuple(aside.message_id for aside in parts.quarantine),
        bloom_filter=delivery.filter.value(),
        journal_mark=delivery.journal.mark,
        next_due_ms=next_due_ms,
    )


ENTRY_BYTES: Final = 300
"""About how much memory a log entry takes."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts: `waiting` messages with unmet dependencies, `missing` ids, `outgoing` unacknowledged ones."""

    lamport_timestamp: int
    log: int
    waiting: int
    missing: int
    outgoing: int
    participants: int


def summary_of(parts: ChannelState) -> Summary:
    """The channel as it is now."""
    delivery = parts.delivery
    return Summary(
        delivery.lamport,
        len(delivery.log),
        len(delivery.waiting),
        len(delivery.missing),
        len(parts.outgoing),
        len(parts.participants),
    )


def outgoing_message(parts: ChannelState, message_id: str) -> OutgoingStatus | None:
    """An unacknowledged message as it stands; None when it is none."""
    one = parts.outgoing.get(message_id)
    if one is None:
        return None
    return OutgoingStatus(
        one.participant_id, one.message_id, one.state, one.evidence, one.attempts, one.next_due_ms
    )


def weight_of(parts: ChannelState) -> int:
    """About how much memory it takes, in log entries."""
    delivery = parts.delivery
    return (
        len(delivery.log)
        + delivery.filter.byte_count // ENTRY_BYTES
        + delivery.filter.mark // 8
        + 4 * (len(delivery.waiting) + len(delivery.missing) + len(parts.outgoing))
        + len(delivery.old) // 2
        + len(parts.quarantine)
    )
