"""What a driver asks of a channel again and again: at a price that does not depend on what it holds."""

from dataclasses import dataclass

from culm_models.sds.channel import Channel
from culm_models.sds.status import OutgoingStatus


@dataclass(frozen=True, slots=True)
class Summary:
    """Counts: `waiting` messages with unmet dependencies, `missing` ids, `outgoing` unacknowledged ones."""

    lamport_timestamp: int
    log: int
    waiting: int
    missing: int
    outgoing: int
    participants: int


def summary_of(channel: Channel) -> Summary:
    """The channel as it is now."""
    parts = channel._parts
    delivery = parts.delivery
    return Summary(
        delivery.lamport,
        len(delivery.log),
        len(delivery.waiting),
        len(delivery.missing),
        len(parts.outgoing),
        len(parts.participants),
    )


def outgoing_message(channel: Channel, message_id: str) -> OutgoingStatus | None:
    """An unacknowledged message as it stands; None when it is none."""
    one = channel._parts.outgoing.get(message_id)
    if one is None:
        return None
    return OutgoingStatus(
        one.participant_id, one.message_id, one.state, one.evidence, one.attempts, one.next_due_ms
    )


def outgoing_counts(channel: Channel, participant_id: str) -> tuple[int, int]:
    """How many messages of a participant are (unacknowledged, possibly acknowledged)."""
    return channel._parts.outgoing.counts(participant_id)


def weight_of(channel: Channel) -> int:
    """About how much memory it takes, in log entries."""
    delivery = channel._parts.delivery
    return (
        len(delivery.log)
        + delivery.filter.mark // 8
        + 4 * (len(delivery.waiting) + len(delivery.missing) + len(channel._parts.outgoing))
        + len(delivery.old) // 2
        + len(channel._parts.quarantine)
    )


def is_quarantined(channel: Channel, message_id: str) -> bool:
    """Whether a message is kept aside because its Lamport timestamp is too far ahead."""
    return message_id in channel._parts.quarantine
