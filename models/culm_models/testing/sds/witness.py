"""Checks of a simulated SDS channel: records what was sent and what each node reported."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from culm_models.sds.events import (
    Acknowledged,
    ChannelOutput,
    Delivered,
    GaveUp,
    Lost,
    Outbound,
    SdsEvent,
    Sent,
)
from culm_models.sds.repair.repair import RepairRule
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.codec import decode
from culm_models.sds.wire.messages import Message, Profile
from culm_models.testing.errors import InvariantError

_ASKING_GAP_MS = RepairRule().gap_ms // 2
"""Minimum time between syncs that carry repair requests."""


@dataclass(slots=True)
class Ledger:
    """Every message that was ever broadcast in the channel, by id, with its bytes at the first time."""

    profile: Profile
    messages: dict[str, Message] = field(default_factory=dict)
    wires: dict[str, bytes] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)

    def broadcast(self, outbound: Outbound) -> Message:
        """Record an outgoing message; a repeated one must be the same, byte for byte."""
        self.counts[outbound.kind] += 1
        self.counts["bytes"] += len(outbound.wire)
        known = self.wires.get(outbound.message_id)
        if known is None:
            if outbound.kind in ("retry", "repair"):
                raise InvariantError(f"{outbound.kind} of {outbound.message_id}, which was never sent")
            message = decode(outbound.wire, self.profile)
            self.wires[outbound.message_id] = outbound.wire
            self.messages[outbound.message_id] = message
            return message
        if outbound.kind not in ("retry", "repair"):
            raise InvariantError(f"{outbound.message_id} was sent as new twice")
        if known != outbound.wire:
            raise InvariantError(f"{outbound.kind} of {outbound.message_id} with other bytes")
        return self.messages[outbound.message_id]


@dataclass(slots=True)
class Witness:
    """Reports of one node since its last loss of state; `log` is the log of an application."""

    ledger: Ledger
    shared: bool
    """Several participants are hosted: they receive from each other, so own messages are delivered, too."""
    log: list[str] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    delivered: set[str] = field(default_factory=set)
    acknowledged: set[str] = field(default_factory=set)
    gave_up: set[str] = field(default_factory=set)
    lost: set[str] = field(default_factory=set)
    ephemeral: set[str] = field(default_factory=set)
    last_sync_ms: int | None = None
    last_asking_ms: int | None = None

    def saw(self, output: ChannelOutput, now_ms: int, settings: SdsSettings) -> None:
        """Check one output. Raises `InvariantError`."""
        # Without replies to content, which come sooner, all syncs without repair requests keep the minimum
        # interval.
        least_ms = settings.sync_ack_ms or settings.sync_floor_ms
        for event in output.events:
            self._check_event(event)
        for outbound in output.send:
            if outbound.kind == "sync":
                asks = bool(self.ledger.messages[outbound.message_id].repair_request)
                last_ms, pause_ms = (
                    (self.last_asking_ms, min(_ASKING_GAP_MS, least_ms))
                    if asks
                    else (self.last_sync_ms, least_ms)
                )
                if last_ms is not None and now_ms - last_ms < pause_ms:
                    raise InvariantError(f"two syncs within {now_ms - last_ms} ms")
                self.last_sync_ms = now_ms
                self.last_asking_ms = now_ms if asks else self.last_asking_ms

    def _check_event(self, event: SdsEvent) -> None:
        match event:
            case Sent(ephemeral=False, position=position):
                self.sent.add(event.message_id)
                self._entered(event.message_id, position, ())
            case Delivered(ephemeral=True):
                # Ephemeral messages are not stored, so repetitions by the network are delivered again.
                self.ephemeral.add(event.message_id)
            case Delivered(position=position, gap=gap):
                if event.message_id in self.delivered:
                    raise InvariantError(f"{event.message_id} was delivered twice")
                self.delivered.add(event.message_id)
                if event.message_id not in self.sent:
                    self._entered(event.message_id, position, gap)
                elif not self.shared:
                    raise InvariantError(f"the own message {event.message_id} was delivered")
                self._check_content(event)
            case Acknowledged():
                self._settled(event.message_id)
                self.acknowledged.add(event.message_id)
            case GaveUp():
                self._settled(event.message_id)
                self.gave_up.add(event.message_id)
            case Lost():
                self.lost.add(event.message_id)

    def _entered(self, message_id: str, position: int | None, gap: Iterable[str]) -> None:
        if position is None or not 0 <= position <= len(self.log):
            raise InvariantError(f"{message_id} at {position} of a log of {len(self.log)}")
        known = self.sent | self.delivered
        message = self.ledger.messages.get(message_id)
        # The bytes of own messages are recorded after the events of the same step.
        for entry in () if message is None else message.causal_history:
            if entry.message_id not in known and entry.message_id not in gap:
                raise InvariantError(f"{message_id} came before {entry.message_id}, which it names")
        self.log.insert(position, message_id)

    def _check_content(self, event: Delivered) -> None:
        original = self.ledger.messages[event.message_id]
        if (original.content, original.sender_id) != (event.content, event.sender_id):
            raise InvariantError(f"{event.message_id} was delivered otherwise than it was sent")

    def _settled(self, message_id: str) -> None:
        if message_id not in self.sent:
            raise InvariantError(f"{message_id} is no message of this node")
        if message_id in self.acknowledged or message_id in self.gave_up:
            raise InvariantError(f"the outcome of {message_id} was reported twice")

    @property
    def unsettled(self) -> set[str]:
        """Own messages whose outcome has not been reported yet."""
        return self.sent - self.acknowledged - self.gave_up
