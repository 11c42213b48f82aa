"""Decides which messages are in the log, wait or are missing (specification "Deliver Message").

A message is delivered when all of its causal history is in the log or given up as lost: parents before
children, ties by Lamport timestamp and id. Each id is delivered once. All decisions of this module are
recorded in the journal, so that they survive a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import Final

from culm_models.sds.bloom import HashPair, RollingFilter
from culm_models.sds.delivery.log import DeliveredMessage, MessageLog, OldIds, Recent
from culm_models.sds.delivery.missing import FetchSchedule, Wanted
from culm_models.sds.delivery.waiting import Quarantine, QuarantinedMessage, WaitingMessage, WaitingMessages
from culm_models.sds.errors import WaitingFullError
from culm_models.sds.events import (
    Collected,
    FetchRequest,
    Lost,
    Missing,
    Rejected,
    content_delivered,
    content_received,
)
from culm_models.sds.repair.repair import RepairBook
from culm_models.sds.settings import SdsSettings
from culm_models.sds.state.journal import (
    DISPUTED,
    DROPPED,
    HINT,
    LOGGED,
    LOST,
    WITHDRAWN,
    Journal,
    Record,
)
from culm_models.sds.wire.codec import encode_entry
from culm_models.sds.wire.messages import HistoryEntry, WireProfile, message_digest

FETCH_ENTRIES_MAX: Final = 256
_DEPENDENCY_BYTES: Final = 64
_MAX_DOUBLINGS: Final = 10


class Delivery:
    """Log, waiting messages, missing ids, filter and Lamport timestamp of one channel."""

    __slots__ = (
        "facts",
        "filter",
        "journal",
        "lamport",
        "log",
        "lost",
        "missing",
        "old",
        "quarantine",
        "recent",
        "repair",
        "settings",
        "stuck_check_ms",
        "waiting",
    )

    def __init__(
        self,
        facts: WireProfile,
        settings: SdsSettings,
        missing: FetchSchedule,
        repair: RepairBook,
        quarantine: Quarantine,
        now_ms: int,
    ) -> None:
        self.facts = facts
        self.settings = settings
        self.missing = missing
        self.repair = repair
        self.quarantine = quarantine
        self.lamport = facts.lamport_now(now_ms)
        self.log = MessageLog(
            facts.name, window=settings.causal_history_size, max_entries=settings.max_log_entries
        )
        self.old = OldIds(settings.max_known_ids)
        self.filter = RollingFilter(facts.bloom_layout, settings.bloom_capacity, settings.bloom_error_rate)
        self.recent = Recent(facts.bloom_layout, self.filter.least_held)
        self.waiting = WaitingMessages(
            max_messages=settings.max_waiting,
            max_bytes=settings.max_waiting_bytes,
            max_edges=settings.max_waiting_dependencies,
        )
        # For each id: how often it was given up, and when last.
        self.lost: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self.journal = Journal(settings.max_journal_records)
        self.stuck_check_ms: int | None = None

    def knows(self, message_id: str) -> bool:
        """Whether further copies of this message can be ignored."""
        return message_id in self.log.by_id or message_id in self.waiting or message_id in self.old

    def encoded(self, message_id: str) -> bytes | None:
        """Return a held message, waiting or logged, as an entry of a causal history; None if not held."""
        message = self.waiting.get(message_id)
        if message is None:
            return self.log.encoded(message_id)
        entry = HistoryEntry(message_id, message.retrieval_hint, message.sender_id or None)
        return encode_entry(entry, self.facts.name)

    def unmet(self, history: Iterable[HistoryEntry], own_id: str) -> list[HistoryEntry]:
        """Return entries that are not in the log and never left it, each once, without `own_id` itself."""
        in_log = self.log.by_id
        unmet = [entry for entry in history if entry.message_id not in in_log]
        if not unmet:
            return unmet
        once = {entry.message_id: entry for entry in unmet}
        once.pop(own_id, None)
        return [entry for entry in once.values() if entry.message_id not in self.old]

    def take(
        self, message: WaitingMessage, history: Iterable[HistoryEntry], now_ms: int, collected: Collected
    ) -> HashPair:
        """Take an unknown message: deliver it or let it wait. Returns its hashes."""
        message_id = message.message_id
        pair = self.filter.add(message_id)
        self.missing.got(message_id)
        self.repair.got(message_id)
        self.lost.pop(message_id, None)
        collected.events.append(content_received(message_id, message.sender_id, message.lamport_timestamp))
        unmet = named = self.unmet(history, message_id)
        if unmet and self.lost:
            # Nobody waits for them again, but the participant that names them may have them.
            message.gap = [entry.message_id for entry in unmet if entry.message_id in self.lost]
            unmet = [entry for entry in unmet if entry.message_id not in self.lost]
        if not unmet:
            self._deliver([message], collected)
            if named:
                self.want(message_id, message.sender_id, named, now_ms, collected)
            return pair
        message.unmet = {entry.message_id: None for entry in unmet}
        self.waiting.put(message)
        self.note(message.record(), len(message.content) + _DEPENDENCY_BYTES * len(message.unmet))
        if self.stuck_check_ms is None and self.settings.lost_timeout_ms is not None:
            self.stuck_check_ms = now_ms + self.settings.lost_timeout_ms
        self.want(message_id, message.sender_id, named, now_ms, collected)
        self._drop_excess(now_ms, collected)
        return pair

    def append_own(
        self, message_id: str, lamport: int, sender_id: str, hint: bytes | None, content: bytes
    ) -> tuple[int, HashPair]:
        """Log a message that is sent here; return its position and hashes. `free` must follow."""
        pair = self.filter.add(message_id)
        self.missing.got(message_id)
        self.repair.got(message_id)
        self.lost.pop(message_id, None)
        digest = message_digest(sender_id, content)
        position = self._log(message_id, lamport, sender_id, hint, digest)
        self.lamport = lamport
        return position, pair

    def free(self, message_id: str, collected: Collected) -> None:
        """Deliver messages that waited for one sent here, whose id others knew before it was sent."""
        self._deliver(self.waiting.met(message_id), collected)

    def want(
        self,
        message_id: str,
        namer_id: str,
        entries: Iterable[HistoryEntry],
        now_ms: int,
        collected: Collected,
    ) -> bool:
        """Search for entries that `message_id` of `namer_id` names, none of them in the log, unless held.

        Returns whether any of them was not known to be missing. A lost entry is searched for again.
        """
        absent = [entry for entry in entries if self._is_sought(entry.message_id, now_ms)]
        new = learned = False
        asks = self.settings.repair_requests and self.settings.repair_max_requests > 0
        for entry in absent:
            is_new = self.missing.want(entry, now_ms, namer_id)
            if is_new:
                new = True
                learned = learned or entry.message_id not in self.lost
            if asks and (is_new or entry.message_id in self.repair):
                self.repair.want(entry, now_ms, namer_id)
        if absent and (new or message_id in self.waiting):
            collected.events.append(Missing(message_id, None, tuple(absent), 1))
        if new:
            self._fetch(self.missing.due(now_ms, gives_up=False).fetch, collected)
        return learned

    def fetch_again(self, now_ms: int, overdue_ms: int | None, collected: Collected) -> None:
        """Fetch the missing messages, as `FetchSchedule.fetch_again` selects them."""
        self._fetch(self.missing.fetch_again(now_ms, overdue_ms), collected)

    def sweep(self, now_ms: int, collected: Collected) -> None:
        """Fetch what is due, give up what has been missing for too long, and free messages that are stuck."""
        due = self.missing.due(now_ms)
        self._fetch(due.fetch, collected)
        free: list[WaitingMessage] = []
        for wanted in due.lost:
            free += self._give_up(wanted.entry.message_id, now_ms, collected)
        self._deliver(free, collected)
        if self.stuck_check_ms is not None and self.stuck_check_ms <= now_ms:
            self._free_stuck(now_ms, collected)

    def next_due_ms(self) -> int | None:
        """Return the time at which `sweep` is due; None if nothing is planned."""
        due_ms = self.missing.next_due_ms()
        if self.stuck_check_ms is not None and len(self.waiting):
            return self.stuck_check_ms if due_ms is None else min(due_ms, self.stuck_check_ms)
        return due_ms

    def keep_aside(self, aside: QuarantinedMessage, clock_ms: int) -> bool:
        """Quarantine a message, and search for it no more. Returns whether there was capacity."""
        if not self.quarantine.put(aside, clock_ms):
            return False
        self.missing.got(aside.message_id)
        self.repair.forget(aside.message_id)
        self.note(aside.record(), aside.size)
        return True

    def withdraw(self, latest: int) -> list[DeliveredMessage]:
        """Remove each message with a Lamport timestamp above `latest` from the log and the waiting messages.

        Returns those that were in the log, the last one first. They are unknown from now on.
        """
        gone = self.log.cut(latest)
        for entry in gone:
            self.recent.drop(entry.message_id)
        for message in [message for message in self.waiting if message.lamport_timestamp > latest]:
            self.waiting.take(message.message_id)
        self.note((WITHDRAWN, latest))
        return gone

    def dispute(self, message_id: str, sender_id: str, content: bytes) -> tuple[bool, bool]:
        """Compare a copy with the known message. Returns whether it differs, and is the first to differ."""
        message = self.waiting.get(message_id)
        if message is not None:
            differs = (message.sender_id, message.content) != (sender_id, content)
            is_first = differs and not message.is_disputed
            message.is_disputed |= differs
        else:
            entry = self.log.by_id.get(message_id)
            digest = message_digest(sender_id, content)
            # An entry that was disputed before, or that left the log, cannot be compared.
            differs = is_first = entry is not None and bool(entry.digest) and entry.digest != digest
            if is_first:
                self.log.note_disputed(message_id)
        if is_first:
            self.note((DISPUTED, message_id))
        return differs, is_first

    def learn_hint(self, message_id: str, hint: bytes) -> bool:
        """Record how to fetch a message of the log if that is unknown. Returns whether anything changed."""
        if not self.log.learn_hint(message_id, hint):
            return False
        self.note((HINT, message_id, hint), len(hint))
        return True

    def note(self, record: Record, size: int = 0) -> None:
        """Put a record into the journal; `size`: bytes of its large parts."""
        self.journal.add(record, self.filter.mark, size)

    def _deliver(self, free: list[WaitingMessage], collected: Collected) -> None:
        """Put messages that wait for nothing into the log, and those that this frees, in their order."""
        if not free:
            return
        ready = [(message.key, message) for message in free]
        heapify(ready)
        while ready:
            message = heappop(ready)[1]
            self.lamport = self.facts.lamport_after(self.lamport, message.lamport_timestamp)
            digest = b"" if message.is_disputed else message_digest(message.sender_id, message.content)
            position = self._log(
                message.message_id,
                message.lamport_timestamp,
                message.sender_id,
                message.retrieval_hint,
                digest,
            )
            collected.events.append(
                content_delivered(
                    message.message_id,
                    message.sender_id,
                    message.content,
                    message.lamport_timestamp,
                    position,
                    tuple(message.gap),
                    message.retrieval_hint,
                )
            )
            for freed in self.waiting.met(message.message_id):
                heappush(ready, (freed.key, freed))

    def _log(self, message_id: str, lamport: int, sender_id: str, hint: bytes | None, digest: bytes) -> int:
        position = self.log.insert(DeliveredMessage(message_id, lamport, sender_id, hint, digest))
        self.recent.add(message_id)
        self.note((LOGGED, message_id, lamport, sender_id, hint, digest))
        for gone in self.log.trim():
            self.old.add(gone)
            self.recent.drop(gone)
        return position

    def _fetch(self, fetched: Iterable[Wanted], collected: Collected) -> None:
        by_attempt: dict[int, list[HistoryEntry]] = {}
        for wanted in fetched:
            by_attempt.setdefault(wanted.attempts, []).append(wanted.entry)
        for attempt, entries in sorted(by_attempt.items()):
            for at in range(0, len(entries), FETCH_ENTRIES_MAX):
                collected.fetch.append(FetchRequest(tuple(entries[at : at + FETCH_ENTRIES_MAX]), attempt))
            if attempt > 1:
                self._report_missing(entries, attempt, collected)

    def _is_sought(self, message_id: str, now_ms: int) -> bool:
        """Whether to search for a message that another one names.

        A message that was given up repeatedly is ignored for a growing time: for 0, 1, 3, 7 times the
        duration of a search without success, and so on. Otherwise participants that are missing it and those
        that name it for them would keep each other busy.
        """
        if message_id in self.waiting or message_id in self.quarantine:
            return False
        times, lost_ms = self.lost.get(message_id, (0, 0))
        if times < 2 or self.settings.lost_timeout_ms is None:
            return True
        searches = (1 << min(times - 1, _MAX_DOUBLINGS)) - 1
        return now_ms >= lost_ms + searches * self.settings.lost_timeout_ms

    def _give_up(self, message_id: str, now_ms: int, collected: Collected) -> list[WaitingMessage]:
        times, _ = self.lost.get(message_id, (0, 0))
        self.note_lost(message_id, times + 1, now_ms)
        self.repair.forget(message_id)
        self.note((LOST, message_id, times + 1, now_ms))
        collected.events.append(Lost(message_id, None, self.waiting.waiters(message_id)))
        return self.waiting.met(message_id, lost=True)

    def note_lost(self, message_id: str, times: int, now_ms: int) -> None:
        """Mark an id as lost; the oldest lost id is forgotten if there are too many."""
        self.lost[message_id] = times, now_ms
        if len(self.lost) > self.settings.max_lost:
            self.lost.popitem(last=False)

    def _report_missing(self, entries: list[HistoryEntry], attempt: int, collected: Collected) -> None:
        by_waiter: dict[str, list[HistoryEntry]] = {}
        for entry in entries:
            waiters = self.waiting.waiters(entry.message_id)
            by_waiter.setdefault(waiters[0] if waiters else "", []).append(entry)
        for waiter, missing in by_waiter.items():
            collected.events.append(Missing(waiter, None, tuple(missing), attempt))

    def _free_stuck(self, now_ms: int, collected: Collected) -> None:
        """Deliver, with gaps, messages that long waited in a cycle or for messages not searched for."""
        timeout_ms = self.settings.lost_timeout_ms or 0
        stuck = [
            message
            for message in self.waiting.stuck(lambda key: key in self.missing or key in self.quarantine)
            if message.since_ms + timeout_ms <= now_ms
        ]
        for message in sorted(stuck, key=lambda message: message.key):
            if message.message_id in self.waiting:
                self.waiting.take(message.message_id)
                message.gap += message.unmet
                self._deliver([message], collected)
        self.stuck_check_ms = now_ms + timeout_ms if len(self.waiting) else None

    def _drop_excess(self, now_ms: int, collected: Collected) -> None:
        """Drop the latest waiting messages above the limits; search again for those that others need."""
        for message in self.waiting.take_excess():
            self.note((DROPPED, message.message_id))
            collected.events.append(
                Rejected(message.message_id, None, WaitingFullError.code, "too much waits", message.sender_id)
            )
            if self.waiting.awaited(message.message_id):
                entry = HistoryEntry(message.message_id, message.retrieval_hint, message.sender_id or None)
                self.missing.want(entry, now_ms, message.sender_id)
