"""Sending in a channel: new messages, syncs, re-sends and answers (specification "Send Message")."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from culm_models.sds.acks.outgoing import Pending, Stripped
from culm_models.sds.channel_state import ChannelState
from culm_models.sds.errors import (
    ClockAheadError,
    EmptyContentError,
    KindError,
    KnownMessageError,
    OversizeError,
    ParticipantError,
)
from culm_models.sds.events import (
    ClockAhead,
    Collected,
    Delivered,
    GaveUp,
    Outbound,
    RepairAnswered,
    RepairRequested,
    Sent,
    SyncSent,
    Withdrawn,
    content_delivered,
    content_sent,
)
from culm_models.sds.timing import draw_below
from culm_models.sds.wire.codec import assemble, bloom_field
from culm_models.sds.wire.fields import MAX_ID_BYTES, id_bytes
from culm_models.sds.wire.messages import HistoryEntry, content_message_id

_NAMED_IN_PASSING: Final = 16
"""Ids that a content message names before the end of the log; a sync can name more."""
_OVERHEAD_BYTES: Final = 8_192
_AHEAD_SLACK_MS: Final = 60_000
"""Slack beyond the allowance: a sent message is above all received ones, and those may be at the limit."""
_ENTRY_BYTES_MAX: Final = 3 * (MAX_ID_BYTES + 8)


def send_content(
    parts: ChannelState,
    participant_id: str,
    content: bytes,
    now_ms: int,
    collected: Collected,
    *,
    message_id: str | None = None,
    retrieval_hint: bytes | None = None,
    nonce: bytes | None = None,
) -> None:
    """Send a message that others must receive: add it to the log, the filter and the outgoing buffer."""
    delivery, settings, profile = parts.delivery, parts.settings, parts.facts.name
    message_id = _checked(parts, participant_id, content, message_id, nonce)
    if delivery.knows(message_id):
        raise KnownMessageError(f"the message {message_id[:100]!r} is known already")
    parts.outgoing.check_capacity(participant_id)
    own = _own_lamport(parts, now_ms)
    if own > parts.latest_lamport(now_ms, _AHEAD_SLACK_MS):
        raise ClockAheadError(
            f"the log ends {ahead_ms(parts, now_ms) // 1_000} s ahead of the clock: others would not take it"
        )
    urgent = parts.schedule.urgent_names()
    named = _entries(parts, [name for name in urgent if name in delivery.log][:_NAMED_IN_PASSING])
    history, value = [*named.values(), *delivery.log.tail()], delivery.filter.value()
    size = len(content) + sum(map(len, history)) + len(value)
    if size + _OVERHEAD_BYTES + settings.repair_max_requests * _ENTRY_BYTES_MAX > settings.max_message_bytes:
        raise OversizeError(f"the message would take more than {settings.max_message_bytes} bytes")
    retrieval_hint = retrieval_hint or None
    if retrieval_hint is not None and len(retrieval_hint) > MAX_ID_BYTES:
        raise OversizeError(f"a retrieval hint of {len(retrieval_hint)} bytes")
    parts.sends += 1
    lamport = parts.facts.lamport_to_send(own, parts.clock_ms(now_ms))
    history_ids, mark = [*named, *delivery.log.tail_ids()], delivery.filter.mark
    requests = _requests(parts, now_ms)
    before, after = assemble(
        profile, participant_id, message_id, parts.channel_id, lamport, history, content, requests
    )
    wire = b"".join((before, bloom_field(value, profile), after))
    stripped = Stripped(before, mark, after)
    delivery.note(stripped.record(message_id), len(before) + len(after))
    position, pair = delivery.append_own(message_id, lamport, participant_id, retrieval_hint, content)
    parts.outgoing.add(participant_id, message_id, pair, stripped, now_ms)
    parts.wires.put(message_id, participant_id, wire)
    parts.schedule.sent(now_ms, sync=False, named=history_ids, sender_id=participant_id)
    collected.send.append(Outbound("new", participant_id, message_id, wire))
    collected.events.append(content_sent(message_id, participant_id, content, lamport, position))
    _report_requests(participant_id, message_id, requests, collected)
    if len(parts.participants) > 1:
        _review_by_siblings(parts, participant_id, history_ids, value, now_ms, collected)
        collected.events.append(
            content_delivered(message_id, participant_id, content, lamport, position, (), retrieval_hint)
        )
    delivery.free(message_id, collected)
    parts.forget_old_filters()


def send_ephemeral(
    parts: ChannelState,
    participant_id: str,
    content: bytes,
    collected: Collected,
    *,
    message_id: str | None = None,
    nonce: bytes | None = None,
) -> None:
    """Send a message without Lamport timestamp, history and filter; the state keeps no trace of it."""
    if "ephemeral" not in parts.facts.kinds:
        raise KindError(f"profile {parts.facts.name} has no ephemeral messages")
    message_id = _checked(parts, participant_id, content, message_id, nonce)
    if len(content) + _OVERHEAD_BYTES > parts.settings.max_message_bytes:
        raise OversizeError(f"the message would take more than {parts.settings.max_message_bytes} bytes")
    parts.sends += 1
    before, after = assemble(
        parts.facts.name, participant_id, message_id, parts.channel_id, None, (), content
    )
    collected.send.append(Outbound("ephemeral", participant_id, message_id, before + after))
    collected.events.append(Sent(message_id, participant_id, content, None, None, True))
    if len(parts.participants) > 1:
        collected.events.append(Delivered(message_id, None, participant_id, content, None, None, True))


def send_sync(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Send a sync of a randomly drawn hosted participant, with the due repair requests."""
    delivery, profile = parts.delivery, parts.facts.name
    requests = _requests(parts, now_ms)
    if not requests and not len(delivery.log):
        parts.schedule.rest()
        return
    number = draw_below(len(parts.participants), parts.seed, "sync.sender", parts.syncs)
    participant_id = list(parts.participants)[number]
    message_id = parts.sync_id(participant_id, parts.syncs)
    parts.syncs += 1
    lamport = parts.facts.lamport_to_send(_own_lamport(parts, now_ms), parts.clock_ms(now_ms))
    tail_ids, tail = delivery.log.tail_ids(), delivery.log.tail()
    names = parts.schedule.names()
    named = _entries(parts, names)
    value = delivery.filter.value()
    before, after = assemble(
        profile,
        participant_id,
        message_id,
        parts.channel_id,
        lamport,
        [*named.values(), *tail],
        None,
        requests,
    )
    delivery.lamport = lamport
    history_ids = [*named, *tail_ids]
    # Messages that have left the log are at best in the filter.
    parts.schedule.sent(now_ms, sync=True, named=[*names, *tail_ids], sender_id=participant_id)
    wire = b"".join((before, bloom_field(value, profile), after))
    collected.send.append(Outbound("sync", participant_id, message_id, wire))
    collected.events.append(SyncSent(message_id, participant_id, lamport))
    _report_requests(participant_id, message_id, requests, collected)
    if len(parts.participants) > 1:
        _review_by_siblings(parts, participant_id, history_ids, value, now_ms, collected)


def resend(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Re-send the due unacknowledged messages byte for byte; give up those that were sent often enough."""
    due = parts.outgoing.due(now_ms)
    for pending in due.resend:
        wire = parts.wire(pending.stripped)
        collected.send.append(Outbound("retry", pending.participant_id, pending.message_id, wire))
    give_up(due.gave_up, collected)


def give_up(pending: Iterable[Pending], collected: Collected) -> None:
    """Report messages that left the buffer without an acknowledgement."""
    for message in pending:
        collected.events.append(
            GaveUp(message.message_id, message.participant_id, message.state, message.attempts)
        )


def answer(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Broadcast messages that others requested and nobody has repeated yet, byte for byte."""
    for due in parts.delivery.repair.answers(now_ms):
        wire = kept_wire(parts, due.message_id)
        if wire is None:
            continue
        parts.delivery.repair.spent(len(wire), now_ms)
        collected.send.append(Outbound("repair", due.participant_id, due.message_id, wire))
        collected.events.append(RepairAnswered(due.message_id, due.participant_id))


def ahead_ms(parts: ChannelState, now_ms: int) -> int:
    """Return how far the end of the log is ahead of the clock, in ms; negative if it is behind."""
    return parts.delivery.log.last_lamport * parts.facts.lamport_unit_ms - parts.clock_ms(now_ms)


def check_clock(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Report if nothing can be sent because the log ends too far ahead of the clock."""
    last = parts.delivery.log.last_lamport
    if last > parts.latest_lamport(now_ms, _AHEAD_SLACK_MS):
        collected.events.append(ClockAhead("", None, last, ahead_ms(parts, now_ms)))


def withdraw_ahead(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Remove messages that others would not accept from the log, and continue from the rest."""
    delivery = parts.delivery
    gone = delivery.withdraw(parts.latest_lamport(now_ms))
    for entry in gone:
        own = entry.sender_id if entry.sender_id in parts.participants else None
        collected.events.append(Withdrawn(entry.message_id, own, entry.sender_id, entry.lamport_timestamp))
    give_up(parts.outgoing.withdraw({entry.message_id for entry in gone}), collected)
    clock = parts.facts.lamport_now(parts.clock_ms(now_ms))
    delivery.lamport = max(delivery.log.last_lamport, min(delivery.lamport, clock))


def _own_lamport(parts: ChannelState, now_ms: int) -> int:
    """Return the lower bound (exclusive) of the next Lamport timestamp.

    Syncs, and in profile nim each receipt, move the timestamp beyond the end of the log, but only the log
    must be followed: if they moved it with a wrong clock, the end of the log counts instead.
    """
    own = parts.delivery.lamport
    if own > parts.latest_lamport(now_ms, _AHEAD_SLACK_MS):
        return parts.delivery.log.last_lamport
    return own


def kept_wire(parts: ChannelState, message_id: str) -> bytes | None:
    """Return a message byte for byte as it was sent; None if its bytes are not kept."""
    wire = parts.wires.get(message_id)
    if wire is None and (pending := parts.outgoing.get(message_id)) is not None:
        wire = parts.wire(pending.stripped)
    return wire


def _checked(
    parts: ChannelState, participant_id: str, content: bytes, message_id: str | None, nonce: bytes | None
) -> str:
    """Check the arguments of a message to send and return its id."""
    if participant_id not in parts.participants:
        raise ParticipantError(f"{participant_id[:100]!r} is not hosted in this channel")
    if not content:
        raise EmptyContentError("a message without content")
    if message_id is None:
        if nonce is None:
            nonce = parts.nonces + parts.sends.to_bytes(8, "big")
        return content_message_id(parts.channel_id, participant_id, nonce, content)
    if not message_id:
        raise OversizeError("an empty message id")
    id_bytes(message_id)
    return message_id


def _entries(parts: ChannelState, names: Iterable[str]) -> dict[str, bytes]:
    """Encode held messages as entries before the end of the log; they fill at most half of a message."""
    if not names:
        return {}
    tail_ids = parts.delivery.log.tail_ids()
    left = parts.settings.max_message_bytes // 2
    entries: dict[str, bytes] = {}
    for name in names:
        encoded = parts.delivery.encoded(name) if name not in tail_ids else None
        if encoded is not None:
            left -= len(encoded)
            if left < 0:
                break
            entries[name] = encoded
    return entries


def _requests(parts: ChannelState, now_ms: int) -> tuple[HistoryEntry, ...]:
    settings = parts.settings
    if not settings.repair_requests or not settings.repair_max_requests:
        return ()
    return parts.delivery.repair.requests(now_ms, settings.repair_max_requests)


def _report_requests(
    participant_id: str, carrier_id: str, requests: Iterable[HistoryEntry], collected: Collected
) -> None:
    for entry in requests:
        collected.events.append(RepairRequested(entry.message_id, participant_id, carrier_id))


def _review_by_siblings(
    parts: ChannelState,
    participant_id: str,
    history_ids: Iterable[str],
    value: bytes,
    now_ms: int,
    collected: Collected,
) -> None:
    """Review the message for the other hosted participants: it may acknowledge messages of theirs."""
    if len(parts.outgoing):
        own_filter = parts.received_filter(value)
        collected.events += parts.outgoing.review(participant_id, history_ids, own_filter, now_ms)
