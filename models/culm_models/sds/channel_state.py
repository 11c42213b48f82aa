"""The parts of a channel, with its knowledge and its waiting messages.

`ChannelState` is one record of the parts, for the modules that send, receive and store. `Status` shows it to
people. Data that drivers read often has a cost that does not depend on the size of the channel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from culm_models.sds.acks.outgoing import OutgoingBuffer, ResendRule, Stripped
from culm_models.sds.bloom import ReceivedFilter
from culm_models.sds.delivery.delivery import Delivery
from culm_models.sds.delivery.log import WireCache
from culm_models.sds.delivery.missing import FetchRule, FetchSchedule
from culm_models.sds.delivery.waiting import Quarantine
from culm_models.sds.events import OutgoingState
from culm_models.sds.repair.repair import RepairBook, RepairRule
from culm_models.sds.settings import SdsSettings
from culm_models.sds.sync.schedule import SyncRule, SyncSchedule
from culm_models.sds.timing import draw
from culm_models.sds.wire.codec import Decoder, bloom_field
from culm_models.sds.wire.messages import PROFILES, HistoryEntry, Profile, WireProfile

_KNOWN_SYNCS: Final = 64


@dataclass(frozen=True, slots=True)
class ChannelRules:
    """The settings, divided by the part that uses them."""

    fetch: FetchRule
    resend: ResendRule
    sync: SyncRule
    repair: RepairRule

    @classmethod
    def of(cls, settings: SdsSettings, facts: WireProfile) -> ChannelRules:
        """Return the rules of a channel."""
        return cls(
            FetchRule(
                first_ms=settings.fetch_first_ms,
                retry_ms=settings.fetch_retry_ms,
                most_ms=settings.fetch_max_ms,
                lost_ms=settings.lost_timeout_ms,
                most_waiting=settings.max_wanted,
            ),
            ResendRule(
                unacknowledged_ms=settings.resend_unacknowledged_ms,
                possibly_acknowledged_ms=settings.resend_possibly_acknowledged_ms,
                most_ms=settings.resend_max_ms,
                attempts=settings.resend_attempts,
                possible_acks_threshold=settings.possible_acks_threshold,
                most_waiting=settings.max_outgoing,
            ),
            SyncRule(
                floor_ms=settings.sync_floor_ms,
                spread_ms=settings.sync_spread_ms,
                fruitless=settings.sync_quiet_after,
                most_senders=settings.max_senders,
                ack_ms=settings.sync_ack_ms,
            ),
            RepairRule(
                hash_rule=facts.repair_hash,
                t_min_ms=settings.repair_t_min_ms,
                t_max_ms=settings.repair_t_max_ms,
                groups=settings.repair_groups,
                most_waiting=settings.max_repairs,
            ),
        )


@dataclass(slots=True)
class ChannelState:
    """One channel. `sends` and `syncs` count sent messages, to draw a new id for each of them."""

    channel_id: str
    facts: WireProfile
    settings: SdsSettings
    seed: bytes
    rules: ChannelRules
    decoder: Decoder
    delivery: Delivery
    outgoing: OutgoingBuffer
    schedule: SyncSchedule
    quarantine: Quarantine
    wires: WireCache
    quarantined_wires: WireCache
    """Quarantined messages as they were on the wire: they answer no request before their time."""
    nonces: bytes
    """The prefix of this side's nonces; the number of sent messages makes each nonce unique."""
    participants: dict[str, None] = field(default_factory=dict)
    unclaimed: dict[str, Stripped] = field(default_factory=dict)
    """Wire bytes from a journal, until the head lists the messages that are still unacknowledged."""
    sends: int = 0
    syncs: int = 0
    clock_offset_ms: int = 0
    """The wall clock minus the timers' time: Lamport timestamps follow the clock, all else the timers."""
    foreign_own: int = 0
    """Number of messages received under a hosted id that were not sent here, since construction."""

    @classmethod
    def made(
        cls, channel_id: str, profile: Profile, settings: SdsSettings, now_ms: int, seed: bytes
    ) -> ChannelState:
        """Return the parts of a channel in its initial state."""
        facts = PROFILES[profile]
        rules = ChannelRules.of(settings, facts)

        def drawn(what: str, message_id: str, count: int) -> int:
            return draw(seed, what, message_id, count)

        missing, repair = FetchSchedule(rules.fetch, drawn), RepairBook(rules.repair)
        quarantine = Quarantine(
            max_messages=settings.max_quarantined, max_bytes=settings.max_quarantined_bytes
        )
        return cls(
            channel_id,
            facts,
            settings,
            seed,
            rules,
            Decoder(profile, max_bytes=settings.max_message_bytes, max_entries=settings.max_history_entries),
            Delivery(facts, settings, missing, repair, quarantine, now_ms),
            OutgoingBuffer(rules.resend, drawn),
            SyncSchedule(rules.sync, drawn),
            quarantine,
            WireCache(settings.max_wire_bytes),
            WireCache(settings.max_wire_bytes),
            drawn("nonce", "", 0).to_bytes(8, "big"),
        )

    def drawn(self, what: str, message_id: str, count: int) -> int:
        """Return a uniformly drawn number below 2**64 for one purpose and occasion."""
        return draw(self.seed, what, message_id, count)

    def clock_ms(self, now_ms: int) -> int:
        """Return the wall clock at a time of the timers."""
        return now_ms + self.clock_offset_ms

    def latest_lamport(self, now_ms: int, slack_ms: int = 0) -> int:
        """Return the latest Lamport timestamp that is accepted at a time."""
        latest_ms = self.clock_ms(now_ms) + self.settings.lamport_allowance_ms + slack_ms
        return self.facts.lamport_now(latest_ms)

    def has_sent_sync(self, participant_id: str, message_id: str) -> bool:
        """Whether this is the id of one of the newest syncs of a hosted participant."""
        newest = range(max(0, self.syncs - _KNOWN_SYNCS), self.syncs)
        return any(self.sync_id(participant_id, number) == message_id for number in newest)

    def sync_id(self, participant_id: str, number: int) -> str:
        """Return the message id of the channel's sync of this number."""
        return f"sync-{self.drawn('sync.id', participant_id, number):016x}"

    @property
    def sends_syncs(self) -> bool:
        """Whether syncs are sent: a participant is hosted, and the settings enable sync messages."""
        return self.settings.sync_messages and bool(self.participants)

    def received_filter(self, value: bytes | None) -> ReceivedFilter | None:
        """Return the filter of a message; None if there is none, or if it does not fit this channel."""
        if not value:
            return None
        settings = self.settings
        return ReceivedFilter.parse(
            self.facts.bloom_layout, value, settings.bloom_capacity, settings.bloom_error_rate
        )

    def wire(self, stripped: Stripped) -> bytes:
        """Return a sent message byte for byte."""
        value = self.delivery.filter.value_at(stripped.filter_mark)
        return b"".join((stripped.before, bloom_field(value, self.facts.name), stripped.after))

    def least_filter_mark(self) -> int:
        """Return the oldest mark whose value may be sent again, or the present mark."""
        least = self.outgoing.least_mark()
        return self.delivery.filter.mark if least is None else least

    def forget_old_filters(self) -> None:
        """Forget ids that no filter to be sent needs any more; acts at every 1,024th mark only."""
        mark = self.delivery.filter.mark
        if mark % 1_024 == 0:
            # A restart needs the ids that no journal has yet.
            self.delivery.filter.forget(min(self.least_filter_mark(), self.delivery.journal.filter_mark))


@dataclass(frozen=True, slots=True)
class OutgoingStatus:
    """An unacknowledged message; `evidence`: senders whose filters contain it."""

    participant_id: str
    message_id: str
    state: OutgoingState
    evidence: tuple[str, ...]
    attempts: int
    next_due_ms: int | None


@dataclass(frozen=True, slots=True)
class WaitingStatus:
    """A waiting message; `missing`: ids of its causal history that are not in the log."""

    message_id: str
    missing: tuple[str, ...]
    since_ms: int


@dataclass(frozen=True, slots=True)
class MissingStatus:
    """A missing message; `attempts`: fetches so far."""

    entry: HistoryEntry
    since_ms: int
    attempts: int
    next_due_ms: int | None
    lost_at_ms: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """The full state of a channel. `log`: (Lamport, id) in order; `log_start`: number that left its front."""

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
    """Return the full state of a channel."""
    delivery = parts.delivery
    return Status(
        participants=tuple(parts.participants),
        lamport_timestamp=delivery.lamport,
        log=tuple(delivery.log.keys()),
        log_start=delivery.log.left,
        outgoing=tuple(
            OutgoingStatus(
                pending.participant_id,
                pending.message_id,
                pending.state,
                pending.evidence,
                pending.attempts,
                pending.next_due_ms,
            )
            for pending in parts.outgoing
        ),
        incoming=tuple(
            WaitingStatus(message.message_id, tuple(message.unmet), message.since_ms)
            for message in delivery.waiting
        ),
        missing=tuple(
            MissingStatus(
                pending.entry,
                pending.since_ms,
                pending.attempts,
                pending.next_due_ms,
                None if parts.settings.lost_timeout_ms is None else pending.lost_at_ms,
            )
            for pending in delivery.missing
        ),
        lost=tuple(delivery.lost),
        quarantined=tuple(aside.message_id for aside in parts.quarantine),
        bloom_filter=delivery.filter.value(),
        journal_mark=delivery.journal.mark,
        next_due_ms=next_due_ms,
    )


ENTRY_BYTES: Final = 300
"""Approximate memory use of a log entry, in bytes."""


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
    """Return the counts of a channel."""
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
    """Return the state of an unacknowledged message; None if there is none."""
    pending = parts.outgoing.get(message_id)
    if pending is None:
        return None
    return OutgoingStatus(
        pending.participant_id,
        pending.message_id,
        pending.state,
        pending.evidence,
        pending.attempts,
        pending.next_due_ms,
    )


def weight_of(parts: ChannelState) -> int:
    """Return the approximate memory use, in log entries."""
    delivery = parts.delivery
    return (
        len(delivery.log)
        + delivery.filter.byte_count // ENTRY_BYTES
        + delivery.filter.mark // 8
        + 4 * (len(delivery.waiting) + len(delivery.missing) + len(parts.outgoing))
        + len(delivery.old) // 2
        + len(parts.quarantine)
    )
