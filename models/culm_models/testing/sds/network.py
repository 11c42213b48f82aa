"""A group of SDS channels with delayed messages, in virtual time, for measurements of traffic.

Unlike `simulator`, it has no faults of its own and checks nothing: the caller determines who sends what and
when, and reads how much was sent. The same seed gives the same run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Final

from culm_models.sds.channel import Channel
from culm_models.sds.events import ChannelOutput, Outbound, SdsEvent
from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile
from culm_models.testing.simulation import START_MS, Faults, Network, SimulatedNode

NETWORK_START_MS: Final = START_MS
NETWORK_CHANNEL: Final = "network"


class _Participant(SimulatedNode):
    """A participant alone on its node."""

    def __init__(self, network: SdsNetwork, number: int, channel: Channel) -> None:
        self._network = network
        self._number = number
        super().__init__()
        self.channel = channel
        channel.join(network.participant_id(number), network.now_ms)

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        self.take(self.channel.receive(data, now_ms))

    def tick(self, now_ms: int) -> None:
        self.take(self.channel.tick(now_ms))

    def next_due_ms(self) -> int | None:
        return self.channel.next_due_ms()

    def take(self, output: ChannelOutput) -> None:
        for event in output.events:
            self._network.on_event(self._number, event)
        for outbound in output.send:
            self._network.counts[outbound.kind] += 1
            self._network.counts["bytes"] += len(outbound.wire)
            self._network.on_sent(self._number, outbound)
            self.queued.append((None, outbound.wire))


class SdsNetwork(Network[_Participant]):
    """`size` full participants of one channel, each on its own node.

    `delay_ms`: the shortest and the longest delay of a message; each receiver has its own delay, unless the
    two are equal. `loss`: the chance that one receiver does not receive one message. There is no store, so a
    channel's fetches are not answered.
    """

    def __init__(
        self,
        size: int,
        settings: SdsSettings,
        profile: Profile = "spec",
        *,
        seed: int = 0,
        delay_ms: tuple[int, int] = (100, 100),
        loss: float = 0.0,
    ) -> None:
        super().__init__(seed)
        self.faults = Faults(loss, delay_ms=delay_ms)
        self.counts: Counter[str] = Counter()
        """Sent messages by kind, and `bytes`: their total size."""
        self.on_sent: Callable[[int, Outbound], None] = lambda _number, _outbound: None
        self.on_event: Callable[[int, SdsEvent], None] = lambda _number, _event: None
        for number in range(size):
            channel_seed = b"%d, node %d" % (seed, number)
            channel = Channel(NETWORK_CHANNEL, profile, settings, now_ms=self.now_ms, seed=channel_seed)
            self.nodes[self.participant_id(number)] = _Participant(self, number, channel)

    @staticmethod
    def participant_id(number: int) -> str:
        """Return the id of a node's participant."""
        return f"node {number}"

    def send(self, number: int, content: bytes) -> str:
        """Let a participant send a message now; returns its id."""
        name = self.participant_id(number)
        output = self.nodes[name].channel.send(name, content, self.now_ms)
        self.nodes[name].take(output)
        self.stepped(name)
        return output.send[0].message_id
