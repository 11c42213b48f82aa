"""What a driver asks of a channel again and again: at a price that does not depend on what it holds."""

from dataclasses import dataclass
from typing import Final

from culm_models.sds.channel_state import ChannelState
from culm_models.sds.status import OutgoingStatus

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
