"""Processing of received messages (specification "Receive Message")."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from typing import Final, TypeAlias

from culm_models.errors import CulmError
from culm_models.sds.bloom import LAYOUTS, ReceivedFilter
from culm_models.sds.channel_state import ChannelState
from culm_models.sds.delivery.waiting import QuarantinedMessage, WaitingMessage
from culm_models.sds.errors import (
    DisputedIdError,
    FieldMissingError,
    LamportAheadError,
    OtherChannelError,
    OwnMessageError,
    SdsMessageError,
)
from culm_models.sds.events import Collected, Delivered, Received, Rejected, SyncReceived
from culm_models.sds.state.journal import RELEASED
from culm_models.sds.wire.fields import MAX_ID_BYTES
from culm_models.sds.wire.messages import HistoryEntry, Message

FROM_STORE: Final = "store"
_LATEST_ASKED: Final = 8
_MANY_MISSING: Final = 64
_LOOKS: Final = 8
"""Number of times that each id is looked up in filters of content while it is recent."""
_LOOKS_WITHOUT_SYNCS: Final = 64
_ON_THE_WAY: Final = 32
_LOST_LOOKED_FOR: Final = 32
_REASON_MAX: Final = 300


Admit: TypeAlias = Callable[[str, bool], CulmError | None]
"""Returns why to refuse a sender's message (sender id, whether the message is new), or None to accept it."""


def receive(
    parts: ChannelState,
    wire: bytes,
    now_ms: int,
    hint: bytes | None,
    source: str | None,
    collected: Collected,
    admit: Admit | None = None,
) -> None:
    """Take a received message."""
    try:
        message = parts.decoder.decode(wire)
    except SdsMessageError as error:
        collected.events.append(Rejected("", None, error.code, str(error)[:_REASON_MAX]))
        return
    if message.channel_id != parts.channel_id:
        reject(message, OtherChannelError.code, "a message of another channel", collected)
        return
    if not message.message_id:
        reject(message, FieldMissingError.code, "the message_id is empty", collected)
        return
    if admit is not None:
        is_new = not parts.delivery.knows(message.message_id)
        refusal = admit(message.sender_id, is_new)
        if refusal is not None:
            if is_new:
                reject(message, refusal.code, str(refusal), collected)
            else:
                _is_disputed(parts, message, collected)
            return
    if hint is not None and not 0 < len(hint) <= MAX_ID_BYTES:
        hint = None
    if message.lamport_timestamp is None:
        _receive_ephemeral(parts, message, collected)
    elif not message.content and "sync" in parts.facts.kinds:
        _receive_sync(parts, message, now_ms, source, collected)
    else:
        _receive_content(parts, message, wire, now_ms, hint, source, collected)


def release(parts: ChannelState, now_ms: int, collected: Collected) -> None:
    """Take the messages whose time has come from the quarantine."""
    for aside in parts.quarantine.take_due(parts.clock_ms(now_ms)):
        parts.delivery.note((RELEASED, aside.message_id))
        if not parts.delivery.knows(aside.message_id):
            message = WaitingMessage(
                aside.message_id,
                aside.sender_id,
                aside.lamport_timestamp,
                aside.content,
                aside.retrieval_hint,
                now_ms,
            )
            parts.delivery.take(message, aside.causal_history, now_ms, collected)
            wire = parts.quarantined_wires.take(aside.message_id)
            if wire is not None:
                parts.wires.put(aside.message_id, aside.sender_id, wire)


def reject(message: Message, code: str, reason: str, collected: Collected) -> None:
    """Refuse a message that could be decoded."""
    collected.events.append(
        Rejected(message.message_id, None, code, reason[:_REASON_MAX], message.sender_id or None)
    )


def _receive_ephemeral(parts: ChannelState, message: Message, collected: Collected) -> None:
    message_id, sender_id = message.message_id, message.sender_id
    if sender_id in parts.participants or parts.delivery.knows(message_id):
        return
    collected.events.append(Received(message_id, None, sender_id, "ephemeral", None))
    content = message.content or b""
    collected.events.append(Delivered(message_id, None, sender_id, content, None, None, True))


def _receive_sync(
    parts: ChannelState, message: Message, now_ms: int, source: str | None, collected: Collected
) -> None:
    sender_id, delivery = message.sender_id, parts.delivery
    if sender_id in parts.participants:
        if source != FROM_STORE and not parts.has_sent_sync(sender_id, message.message_id):
            parts.foreign_own += 1
        return
    lamport = message.lamport_timestamp or 0
    if _ahead(parts, lamport, now_ms):
        reject(message, LamportAheadError.code, f"the Lamport timestamp {lamport} is far ahead", collected)
        return
    collected.events.append(SyncReceived(message.message_id, None, sender_id, lamport))
    history = message.causal_history
    history_ids = [entry.message_id for entry in history]
    received_filter = parts.received_filter(message.bloom_filter)
    acknowledged = parts.outgoing.review(sender_id, history_ids, received_filter, now_ms)
    collected.events += acknowledged
    learned = bool(acknowledged)
    _receive_requests(parts, message, now_ms, source)
    wanted = [*delivery.unmet(history, ""), *_lost_but_held(parts, received_filter)]
    if wanted:
        learned = delivery.want(message.message_id, sender_id, wanted, now_ms, collected) or learned
    if source != FROM_STORE:
        learned = parts.schedule.add_missing(_missing(parts, history_ids, received_filter)) or learned
        parts.schedule.seen(
            sender_id, now_ms, learned=learned, history_ids=history_ids, filter=received_filter
        )


def _receive_content(
    parts: ChannelState,
    message: Message,
    wire: bytes,
    now_ms: int,
    hint: bytes | None,
    source: str | None,
    collected: Collected,
) -> None:
    message_id, sender_id, delivery = message.message_id, message.sender_id, parts.delivery
    is_known = delivery.knows(message_id)
    if is_known and _is_disputed(parts, message, collected):
        return
    own = sender_id in parts.participants
    history = message.causal_history
    history_ids = [entry.message_id for entry in history]
    received_filter, is_answer = None, False
    if not own:
        received_filter = parts.received_filter(message.bloom_filter)
        collected.events += parts.outgoing.review(sender_id, history_ids, received_filter, now_ms)
        is_answer = delivery.repair.got(message_id)
        _receive_requests(parts, message, now_ms, source)
    if is_known:
        if hint is not None:
            delivery.learn_hint(message_id, hint)
        if not own and not is_answer and source != FROM_STORE and _sent_again(parts, message, now_ms):
            parts.schedule.repeated(message_id, sender_id, now_ms)
        return
    if own and source != FROM_STORE and message_id not in delivery.missing:
        parts.foreign_own += 1
        reject(
            message,
            OwnMessageError.code,
            "a message under the own id that this participant did not send",
            collected,
        )
        return
    lamport, content = message.lamport_timestamp or 0, message.content or b""
    if _ahead(parts, lamport, now_ms):
        _set_aside(parts, message, wire, now_ms, hint, collected)
        return
    waiting = WaitingMessage(message_id, sender_id, lamport, content, hint, now_ms)
    # A message that others have named is acknowledged already. And an answer carries a filter: a sender
    # without filters must not cause larger messages than it sends.
    soon = received_filter is not None and message_id not in delivery.missing
    pair = delivery.take(waiting, history, now_ms, collected)
    if delivery.knows(message_id):
        parts.wires.put(message_id, sender_id, wire)
    if not own and source != FROM_STORE:
        parts.schedule.seen(sender_id, now_ms, learned=True, history_ids=history_ids, filter=received_filter)
        parts.schedule.owe(message_id, sender_id, pair, now_ms, soon=soon)
        if _looks_in_passing(parts):
            parts.schedule.add_missing(_missing_in_passing(parts, history_ids, received_filter))
            delivery.want(message_id, sender_id, _lost_but_held(parts, received_filter), now_ms, collected)
    parts.forget_old_filters()


def _is_disputed(parts: ChannelState, message: Message, collected: Collected) -> bool:
    """Whether a known id arrives with another sender or content than before; reported once."""
    if message.lamport_timestamp is None or not message.content:
        return False
    differs, is_first = parts.delivery.dispute(message.message_id, message.sender_id, message.content)
    if is_first:
        reject(message, DisputedIdError.code, "another message with this id is known", collected)
    return differs


def _receive_requests(parts: ChannelState, message: Message, now_ms: int, source: str | None) -> None:
    # Messages from a store are old, so their requests no longer count.
    if message.repair_request and parts.settings.repair_requests and source != FROM_STORE:

        def writer_of(message_id: str) -> str | None:
            writer = parts.wires.writer(message_id)
            if writer is None and (pending := parts.outgoing.get(message_id)) is not None:
                return pending.participant_id
            return writer

        parts.delivery.repair.requested_by(
            message.sender_id, message.repair_request, writer_of, now_ms, parts.schedule.senders()
        )


def _sent_again(parts: ChannelState, message: Message, now_ms: int) -> bool:
    """Whether a further copy is a re-send and not a duplicate by the network, which arrives soon after.

    The Lamport timestamp gives the time of sending if that clock is right; if not, the copy counts as a
    re-send.
    """
    sent_ms = (message.lamport_timestamp or 0) * parts.facts.lamport_unit_ms
    return abs(parts.clock_ms(now_ms) - sent_ms) >= parts.settings.resend_unacknowledged_ms // 2


def _ahead(parts: ChannelState, lamport: int, now_ms: int) -> bool:
    return lamport > parts.latest_lamport(now_ms)


def _set_aside(
    parts: ChannelState,
    message: Message,
    wire: bytes,
    now_ms: int,
    hint: bytes | None,
    collected: Collected,
) -> None:
    if message.message_id in parts.quarantine:
        return
    lamport, content = message.lamport_timestamp or 0, message.content or b""
    due_ms = lamport * parts.facts.lamport_unit_ms - parts.settings.lamport_allowance_ms
    history: tuple[HistoryEntry, ...] = message.causal_history
    aside = QuarantinedMessage(due_ms, message.message_id, message.sender_id, lamport, content, history, hint)
    kept = parts.delivery.keep_aside(aside, parts.clock_ms(now_ms))
    if kept:
        parts.quarantined_wires.put(aside.message_id, aside.sender_id, wire)
    until = f"taken at {due_ms} ms" if kept else "not kept"
    reason = f"the Lamport timestamp {lamport} is far ahead: {until}"
    reject(message, LamportAheadError.code, reason, collected)


def _missing(
    parts: ChannelState, history_ids: list[str], received_filter: ReceivedFilter | None
) -> list[str]:
    """Return messages of the log that a sync shows as missing at its sender, oldest first."""
    delivery, named = parts.delivery, set(history_ids)
    absent = _absent(parts, received_filter)
    if absent is None:
        # Without a filter, or for a participant that begins, the end of the log is more useful than samples.
        absent = delivery.log.tail_ids()[-_LATEST_ASKED:]
    return [message_id for message_id in absent if message_id not in named]


def _looks_in_passing(parts: ChannelState) -> bool:
    """Whether to look into the filter of a content message, which is only done now and then."""
    looks = _LOOKS if "sync" in parts.facts.kinds else _LOOKS_WITHOUT_SYNCS
    return parts.delivery.filter.mark % max(parts.delivery.recent.limit // looks, 1) == 0


def _missing_in_passing(
    parts: ChannelState, history_ids: list[str], received_filter: ReceivedFilter | None
) -> list[str]:
    """Return messages that the sender of content is missing, except for those that may be on the way."""
    named = set(history_ids)
    absent = _absent(parts, received_filter, but=_ON_THE_WAY) or []
    return [message_id for message_id in absent if message_id not in named]


def _lost_but_held(parts: ChannelState, received_filter: ReceivedFilter | None) -> list[HistoryEntry]:
    """Return the newest lost ids that the sender's filter contains."""
    lost = parts.delivery.lost
    if not lost or received_filter is None or not received_filter.is_evidence:
        return []
    hash_pair = LAYOUTS[parts.facts.bloom_layout].hash_pair
    newest = islice(reversed(lost), _LOST_LOOKED_FOR)
    return [
        HistoryEntry(message_id) for message_id in newest if received_filter.contains(hash_pair(message_id))
    ]


def _absent(parts: ChannelState, received_filter: ReceivedFilter | None, *, but: int = 0) -> list[str] | None:
    if received_filter is None or not received_filter.is_evidence:
        return None
    delivery = parts.delivery
    if delivery.filter.within(received_filter):
        # The usual case, found without a lookup per id.
        return []
    absent = delivery.recent.absent(received_filter, but=but)
    return absent if len(absent) <= _MANY_MISSING else None
