"""A group of SDS channels that hear each other after a delay, in virtual time, for measurements of traffic.

Unlike `simulator` it plans no faults of its own and checks nothing: a caller says who sends what and when,
and reads how much was sent. The same seed gives the same run.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final

from culm_models.sds.channel import Channel
from culm_models.sds.events import Event
from culm_models.sds.output import ChannelOutput, Outbound
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile

NETWORK_START_MS: Final = 1_760_000_000_000
NETWORK_CHANNEL: Final = "network"


@dataclass(slots=True)
class SdsNetwork:
    """`size` full participants of one channel, each on a node of its own.

    `delay_ms`: the shortest and the longest way of a message; each receiver has its own delay, unless the two
    are equal. `loss`: the chance that one receiver does not get one message. There is no store: nothing that
    a channel wants to fetch is answered.
    """

    size: int
    settings: SdsSettings
    profile: Profile = "spec"
    seed: int = 0
    delay_ms: tuple[int, int] = (100, 100)
    loss: float = 0.0
    now_ms: int = NETWORK_START_MS
    nodes: list[Channel] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    """Messages that were sent, by kind, and `bytes`: the size of all of them."""
    on_sent: Callable[[int, Outbound], None] = lambda _number, _outbound: None
    on_event: Callable[[int, Event], None] = lambda _number, _event: None
    _rng: random.Random = field(init=False)
    _agenda: list[tuple[int, int, int, bytes | None]] = field(default_factory=list)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        self.nodes = [
            Channel(
                NETWORK_CHANNEL,
                self.profile,
                self.settings,
                now_ms=self.now_ms,
                seed=b"%d, node %d" % (self.seed, number),
            )
            for number in range(self.size)
        ]
        for number, node in enumerate(self.nodes):
            node.join(self.participant_id(number), self.now_ms)

    @staticmethod
    def participant_id(number: int) -> str:
        """The id of the participant at a node."""
        return f"node {number}"

    def send(self, number: int, content: bytes) -> str:
        """Let a participant send a message now. Returns the id."""
        output = self.nodes[number].send(self.participant_id(number), content, self.now_ms)
        self._take(number, output)
        return output.send[0].message_id

    def broadcast(self, wire: bytes) -> None:
        """Let every node receive bytes that no node sent."""
        self._carry(-1, wire)

    def run_until(self, end_ms: int) -> None:
        """Do everything that happens before `end_ms`, which is the time then."""
        while self._agenda and self._agenda[0][0] < end_ms:
            self.now_ms, _, number, wire = heappop(self._agenda)
            if wire is None:
                node = self.nodes[number]
                due_ms = node.next_due_ms()
                # A planned tick that is not due any more is ignored: the new time is planned, too.
                if due_ms is not None and due_ms <= self.now_ms:
                    self._take(number, node.tick(self.now_ms))
            elif number < 0:
                for other in range(self.size):
                    if other != ~number:
                        self._arrive(other, wire)
            else:
                self._arrive(number, wire)
        self.now_ms = end_ms

    def _take(self, number: int, output: ChannelOutput) -> None:
        for event in output.events:
            self.on_event(number, event)
        for outbound in output.send:
            self.counts[outbound.kind] += 1
            self.counts["bytes"] += len(outbound.wire)
            self.on_sent(number, outbound)
            self._carry(number, outbound.wire)
        due_ms = self.nodes[number].next_due_ms()
        if due_ms is not None:
            self._plan(max(due_ms, self.now_ms), number, None)

    def _carry(self, number: int, wire: bytes) -> None:
        low_ms, high_ms = self.delay_ms
        if low_ms == high_ms:
            # One entry for all receivers, marked by the complement of the sender's number.
            self._plan(self.now_ms + low_ms, ~(number if number >= 0 else self.size), wire)
            return
        for other in range(self.size):
            if other != number:
                self._plan(self.now_ms + self._rng.randint(low_ms, high_ms), other, wire)

    def _arrive(self, number: int, wire: bytes) -> None:
        if self._rng.random() >= self.loss:
            self._take(number, self.nodes[number].receive(wire, self.now_ms))

    def _plan(self, at_ms: int, number: int, wire: bytes | None) -> None:
        self._steps += 1
        heappush(self._agenda, (at_ms, self._steps, number, wire))
