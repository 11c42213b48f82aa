"""One connection between two replicas, whose bytes and verdicts take their time."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.exchange.connection import Exchange
from culm_models.dag.exchange.events import ExchangeEvent, NodesReceived, ShardSpooled, TokenReceived
from culm_models.dag.exchange.settings import ExchangeSettings
from culm_models.dag.wire.frames import FrameReader, frame_of
from culm_models.dag.wire.messages import DagMessage
from culm_models.testing.dag.liar import lie
from culm_models.testing.dag.replica import MemoryReplica

Changed = Callable[[MemoryReplica, bytes, Cid], None]
"""Is told of a node or shard that is new at a replica."""


@dataclass(slots=True)
class LinkEnd:
    """One end: what it has sent that has not arrived, and the verdicts that it owes."""

    replica: MemoryReplica
    exchange: Exchange
    other_peer: bytes
    is_liar: bool = False
    sent: bytearray = field(default_factory=bytearray)
    owed: list[tuple[bytes, Cid, bytes | None]] = field(default_factory=list)


class DagLink:
    """Two ends; one step of either at a time."""

    def __init__(
        self,
        rng: random.Random,
        ends: tuple[tuple[MemoryReplica, bytes, ExchangeSettings], ...],
        changed: Changed,
        *,
        liar: bool = False,
    ) -> None:
        self._rng = rng
        self._changed = changed
        (one, one_key, one_settings), (two, two_key, two_settings) = ends
        self.ends = (
            LinkEnd(one, Exchange(one, one_settings, two_key), two_key),
            LinkEnd(two, Exchange(two, two_settings, one_key), one_key, is_liar=liar),
        )

    @property
    def is_over(self) -> bool:
        """Whether an end has dropped the other."""
        return any(end.exchange.dropped is not None for end in self.ends)

    def is_done(self) -> bool:
        """Whether both ends have all of every space."""
        return all(
            not end.sent
            and not end.owed
            and end.exchange.spaces
            and all(end.exchange.is_done(space) for space in end.exchange.spaces)
            for end in self.ends
        )

    def step(self) -> bool:
        """Something of either end, chosen at random; False when neither could do a thing."""
        start = self._rng.randrange(6)
        steps = (self._send, self._deliver, self._settle)
        return any(
            steps[(start + number) % 3](*self._ends((start + number) // 3 % 2)) for number in range(6)
        ) or any(step(*self._ends(side)) for step in steps for side in (0, 1))

    def _ends(self, first: int) -> tuple[LinkEnd, LinkEnd]:
        return self.ends[first], self.ends[1 - first]

    def _send(self, end: LinkEnd, other: LinkEnd) -> bool:
        frame = end.exchange.next_frame()
        if frame and end.is_liar and self._rng.random() < 0.2:
            largest = other.exchange.hello.max_frame if other.exchange.hello else len(frame)
            (message,) = FrameReader().feed(frame)
            end.sent += b"".join(frame_of(one) for one in self._lies(message, largest))
        else:
            end.sent += frame
        return bool(frame)

    def _lies(self, message: DagMessage, largest: int) -> list[DagMessage]:
        return [one for one in lie(self._rng, message) if largest]

    def _deliver(self, end: LinkEnd, other: LinkEnd) -> bool:
        if not end.sent:
            return False
        count = self._rng.choice((1, 10, 100, 1_000, 100_000, len(end.sent)))
        data = bytes(end.sent[:count])
        del end.sent[:count]
        self._take(other, other.exchange.receive(data))
        return True

    def _take(self, end: LinkEnd, events: list[ExchangeEvent]) -> None:
        for event in events:
            if isinstance(event, NodesReceived):
                end.owed += [(event.space, cid, block) for cid, block in event.blocks]
            elif isinstance(event, ShardSpooled):
                end.owed.append((event.space, event.shard, None))
            elif isinstance(event, TokenReceived):
                self._take(end, end.exchange.access_changed(event.space))

    def _settle(self, end: LinkEnd, other: LinkEnd) -> bool:
        if not end.owed:
            return False
        at = self._rng.randrange(len(end.owed))
        space, cid, block = end.owed.pop(at)
        if block is not None:
            verdict = end.replica.put(space, cid, block)
        else:
            verdict = end.replica.accept(end.other_peer, space, cid)
        end.exchange.settle(space, [(cid, *verdict)])
        self._changed(end.replica, space, cid)
        return True

    def offer_new(self, replica: MemoryReplica, space: bytes, cid: Cid) -> None:
        """Offer what is new at a replica to the other end."""
        for end in self.ends:
            if end.replica is not replica:
                continue
            if cid in replica.shard_bytes:
                end.exchange.offer(space, shards=[(cid, len(replica.shard_bytes[cid]))])
            elif cid in replica.dag_heads(space):
                end.exchange.offer(space, dag_heads=[cid])
            elif cid in replica.publish_heads(space):
                end.exchange.offer(space, publish_heads=[cid])
