"""The state of a channel across a restart: the journal's chunks and the head, as bytes and back.

Equal histories give equal bytes, and a restored channel continues exactly as the saved one would have. Only
recent wire bytes (`wires`) are not saved: they answer repair requests and are no part of the state. The bytes
are this side's own; malformed ones raise `SnapshotError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from culm_models.sds.acks.outgoing import OutgoingBuffer, Stripped
from culm_models.sds.channel_state import ChannelState
from culm_models.sds.delivery.log import DeliveredMessage
from culm_models.sds.delivery.missing import FetchSchedule
from culm_models.sds.delivery.waiting import QuarantinedMessage, WaitingMessage
from culm_models.sds.errors import SnapshotError
from culm_models.sds.repair.repair import RepairBook
from culm_models.sds.state.journal import (
    DISPUTED,
    DROPPED,
    HINT,
    LOGGED,
    LOST,
    PENDING,
    QUARANTINED,
    RELEASED,
    WAITS,
    WITHDRAWN,
    Record,
    pack,
    unpacked,
)
from culm_models.sds.sync.schedule import SyncSchedule
from culm_models.sds.wire.messages import HistoryEntry

_FORMAT: Final = 1
_WHOLE: Final = 1
_CONTINUED: Final = 2
_HEAD: Final = 3
_CHUNK_ITEMS: Final = 8
_HEAD_ITEMS: Final = 13


def journal_since(parts: ChannelState, mark: int) -> bytes:
    """Encode a chunk with the records after a mark."""
    delivery = parts.delivery
    records, filter_mark = delivery.journal.since(mark)
    pairs = delivery.filter.pack_since(filter_mark)
    return _chunk(parts, _CONTINUED, mark, pairs, records, None)


def journal_whole(parts: ChannelState) -> bytes:
    """Encode a whole chunk with everything that a journal records and that still counts."""
    delivery = parts.delivery
    records = [
        *((LOST, message_id, *times) for message_id, times in delivery.lost.items()),
        *(
            (
                LOGGED,
                entry.message_id,
                entry.lamport_timestamp,
                entry.sender_id,
                entry.retrieval_hint,
                entry.digest,
            )
            for entry in delivery.log
        ),
        *(message.record() for message in delivery.waiting),
        *((DISPUTED, message.message_id) for message in delivery.waiting if message.is_disputed),
        *(aside.record() for aside in parts.quarantine),
        *(pending.stripped.record(pending.message_id) for pending in parts.outgoing),
    ]
    positions = {message_id: position for position, (_, message_id) in enumerate(delivery.log.keys())}
    recent = [positions[message_id] for message_id in delivery.recent.ids()]
    before = [delivery.log.left, delivery.old.pack(), recent]
    pairs = delivery.filter.pack_since(delivery.filter.needed_for(parts.least_filter_mark()))
    return _chunk(parts, _WHOLE, 0, pairs, records, before)


def apply_journal(parts: ChannelState, data: bytes) -> None:
    """Apply a chunk: a whole one to a fresh channel, a continued one at the end of the last one."""
    journal = parts.delivery.journal
    with unpacked(data, _FORMAT, _CHUNK_ITEMS) as items:
        kind, channel_id, profile, start, end, pairs, records, before = items
        _check_channel(parts, channel_id, profile)
        if end <= journal.mark and kind == _CONTINUED:
            return
        if kind not in (_WHOLE, _CONTINUED) or (start if kind == _CONTINUED else 0) != journal.mark:
            raise SnapshotError(f"a journal from {start} to {end} does not follow {journal.mark}")
        parts.delivery.filter.extend_packed(pairs)
        if kind == _WHOLE:
            records = _apply_log(parts, records, *before)
        for number, *details in records:
            _APPLIED[number](parts, *details)
        journal.forget(end, parts.delivery.filter.mark)


def head(parts: ChannelState) -> bytes:
    """Encode the state that is not in the journal."""
    delivery = parts.delivery
    return pack(
        _FORMAT,
        _HEAD,
        parts.channel_id,
        parts.facts.name,
        delivery.journal.mark,
        delivery.lamport,
        list(parts.participants),
        parts.sends,
        parts.syncs,
        delivery.stuck_check_ms,
        delivery.missing.pack(),
        parts.outgoing.pack(stripped=False),
        parts.schedule.pack(),
        delivery.repair.pack(),
    )


def restore_head(parts: ChannelState, data: bytes) -> None:
    """Restore a head that belongs to the journal's mark."""
    delivery, rules = parts.delivery, parts.rules
    with unpacked(data, _FORMAT, _HEAD_ITEMS) as items:
        kind, channel_id, profile, mark, delivery.lamport, participants, *counts = items[:9]
        _check_channel(parts, channel_id, profile)
        if kind != _HEAD or mark != delivery.journal.mark:
            raise SnapshotError(f"a head for {mark} records of a journal that has {delivery.journal.mark}")
        parts.sends, parts.syncs, delivery.stuck_check_ms = counts
        missing, outgoing, schedule, repair = items[9:]
        parts.participants = dict.fromkeys(participants)
        delivery.missing = FetchSchedule.unpack(missing, rules.fetch, parts.drawn)
        parts.outgoing = OutgoingBuffer.unpack(
            outgoing, rules.resend, parts.drawn, stripped=_kept_wires(parts)
        )
        parts.schedule = SyncSchedule.unpack(schedule, rules.sync, parts.drawn)
        delivery.repair = RepairBook.unpack(repair, rules.repair)
        delivery.repair.host(tuple(parts.participants))
        parts.unclaimed.clear()


def _chunk(
    parts: ChannelState, kind: int, start: int, pairs: bytes, records: list[Record], before: list[Any] | None
) -> bytes:
    end = parts.delivery.journal.mark
    return pack(_FORMAT, kind, parts.channel_id, parts.facts.name, start, end, pairs, records, before)


def _check_channel(parts: ChannelState, channel_id: str, profile: str) -> None:
    if (channel_id, profile) != (parts.channel_id, parts.facts.name):
        raise SnapshotError(f"of the channel {channel_id!r} in profile {profile!r}")


def _kept_wires(parts: ChannelState) -> Callable[[str], Stripped]:
    former = parts.outgoing

    def stripped(message_id: str) -> Stripped:
        unclaimed = parts.unclaimed.get(message_id)
        if unclaimed is not None:
            return unclaimed
        pending = former.get(message_id)
        if pending is None:
            raise SnapshotError(f"the journal has no bytes of the message {message_id!r}")
        return pending.stripped

    return stripped


def _apply_log(
    parts: ChannelState, records: list[list[Any]], left: int, old: bytes, recent: list[int]
) -> list[list[Any]]:
    """Fill the log of a fresh channel at once. Returns the remaining records."""
    parts.delivery.old.extend_packed(old)
    entries = [DeliveredMessage(*details) for number, *details in records if number == LOGGED]
    parts.delivery.log.extend(entries, left)
    parts.delivery.recent.extend(entries[position].message_id for position in recent)
    return [record for record in records if record[0] != LOGGED]


def _logged(
    parts: ChannelState,
    message_id: str,
    lamport: int,
    sender_id: str,
    hint: bytes | None,
    digest: bytes = b"",
) -> None:
    delivery = parts.delivery
    delivery.lost.pop(message_id, None)
    if message_id in delivery.waiting:
        delivery.waiting.take(message_id)
    delivery.log.insert(DeliveredMessage(message_id, lamport, sender_id, hint, digest))
    delivery.recent.add(message_id)
    for gone in delivery.log.trim():
        delivery.old.add(gone)
        delivery.recent.drop(gone)
    delivery.waiting.met(message_id)


def _waits(
    parts: ChannelState,
    message_id: str,
    lamport: int,
    sender_id: str,
    hint: bytes | None,
    content: bytes,
    since_ms: int,
    unmet: list[str],
    gap: list[str],
) -> None:
    parts.delivery.lost.pop(message_id, None)
    parts.delivery.waiting.put(
        WaitingMessage(message_id, sender_id, lamport, content, hint, since_ms, dict.fromkeys(unmet), gap)
    )


def _dropped(parts: ChannelState, message_id: str) -> None:
    parts.delivery.waiting.take(message_id)


def _lost(parts: ChannelState, message_id: str, times: int = 1, lost_ms: int = 0) -> None:
    parts.delivery.note_lost(message_id, times, lost_ms)
    parts.delivery.waiting.met(message_id, lost=True)


def _hint(parts: ChannelState, message_id: str, hint: bytes) -> None:
    parts.delivery.log.learn_hint(message_id, hint)


def _pending(parts: ChannelState, message_id: str, filter_mark: int, before: bytes, after: bytes) -> None:
    parts.unclaimed[message_id] = Stripped(before, filter_mark, after)


def _quarantined(
    parts: ChannelState,
    due_ms: int,
    message_id: str,
    sender_id: str,
    lamport: int,
    content: bytes,
    history: list[list[Any]],
    hint: bytes | None,
) -> None:
    entries = tuple(HistoryEntry(*entry) for entry in history)
    parts.quarantine.restore(
        QuarantinedMessage(due_ms, message_id, sender_id, lamport, content, entries, hint)
    )


def _released(parts: ChannelState, message_id: str) -> None:
    parts.quarantine.take(message_id)


def _disputed(parts: ChannelState, message_id: str) -> None:
    message = parts.delivery.waiting.get(message_id)
    if message is not None:
        message.is_disputed = True
    elif message_id in parts.delivery.log:
        parts.delivery.log.note_disputed(message_id)


def _withdrawn(parts: ChannelState, latest: int) -> None:
    parts.delivery.withdraw(latest)


_APPLIED: Final[dict[int, Callable[..., None]]] = {
    LOGGED: _logged,
    WAITS: _waits,
    DROPPED: _dropped,
    LOST: _lost,
    HINT: _hint,
    PENDING: _pending,
    QUARANTINED: _quarantined,
    RELEASED: _released,
    DISPUTED: _disputed,
    WITHDRAWN: _withdrawn,
}
