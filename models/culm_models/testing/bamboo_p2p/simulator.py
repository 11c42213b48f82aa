"""A row of ends under random orders and delays, all from one seed: the same seed gives the same run.

Neighbours in the row are connected. Each of the four directions of a connection is delayed by itself and
split anywhere, so that data overtakes control and the reverse. First everything is done at random:
ranges are proposed, adjusted, refused, cancelled, entries are published, connections are lost and made anew,
in greedy runs some hold wrong parts of payloads, and in some runs one end has another branch of the log. Then
everything is carried, and cancelled, until nothing is left.

What must hold: no end ever drops another; nothing goes out beyond what was asked for (`witness`); every
request is freed; credit is equal at both ends, and as it was; nothing is held that its author did not write;
and what is asked for last comes, if a neighbour has it and the log is not forked.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.hashes import YAMF, YASMF
from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.errors import CallRefused, RangeViolated
from culm_models.bamboo_p2p.memory_store import MemoryStore
from culm_models.bamboo_p2p.peer import GivenEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import Direction, PeerSettings, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Adjust, CancelCode, Eagerness
from culm_models.testing.bamboo_p2p.log import LENGTH, LOG, LoggedEntry, the_log
from culm_models.testing.bamboo_p2p.witness import DataWitness
from culm_models.testing.errors import SimulationError
from culm_models.testing.memory_link import Pipe

_CANCELS: Final = (CancelCode.REFUSED, CancelCode.RESOURCES, CancelCode.DONE, CancelCode.MANDATORY)
_CALM_ROUNDS: Final = 200
_QUIET_AFTER: Final = 100_000


@dataclass(slots=True)
class _End:
    """One end of one connection, and what it has sent that has not arrived."""

    peer: Peer
    connection: Connection
    control: Pipe = field(default_factory=Pipe)
    data: Pipe = field(default_factory=Pipe)
    witness: DataWitness | None = None


class BambooP2pSimulation:
    """One run."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rng = random.Random(seed)
        self._greedy = self._rng.random() < 0.5
        self._flavour = self._rng.choice((YASMF, YASMF, YAMF))
        self._log = the_log(self._flavour)
        forked_at = self._rng.randint(1, LENGTH) if self._rng.random() < 0.15 else LENGTH + 1
        self._branch = the_log(self._flavour, forked_at=forked_at)
        self._is_forked = forked_at <= LENGTH
        size = self._rng.choice((2, 2, 2, 3, 4))
        self.peers = [Peer(MemoryStore(self._flavour), self._settings()) for _ in range(size)]
        for peer in self.peers[:-1]:
            peer.add(self._beginning(self._log))
        self.peers[-1].add(self._beginning(self._branch))
        self._pairs = [self._connected(index) for index in range(size - 1)]

    def run(self, actions: int) -> None:
        """So many random actions, then all of the end. Raises `SimulationError`."""
        for _ in range(actions):
            self._act()
        self._carry_all()
        self._cancel_all()
        self._check_freed()
        self._check_held()
        if not self._is_forked:
            self._check_catch_up()

    # How it begins.

    def _settings(self) -> PeerSettings:
        rng = self._rng
        eagerness = rng.choice((Eagerness.ALL, Eagerness.ALL, Eagerness.NOTIFY, Eagerness.THRESHOLD))
        policy = Policy(
            answer=rng.choice((PolicyAnswer.CONFIRM,) * 6 + (PolicyAnswer.WAIT, PolicyAnswer.REFUSE)),
            eagerness=eagerness,
            threshold=rng.randint(0, 60) if eagerness is Eagerness.THRESHOLD else None,
            may_skip=rng.random() < 0.8,
            min_size=rng.choice((0, 0, 0, 10)),
            max_size=rng.choice((MAX_SIZE, MAX_SIZE, MAX_SIZE, 50)),
            end=rng.choice((None, None, None, rng.randint(1, LENGTH))),
            upper=rng.choice((None, None, None, rng.randint(1, LENGTH))),
            direction=rng.choice((Direction.BOTH,) * 4 + (Direction.PULL, Direction.PUSH)),
        )
        return PeerSettings(
            sends_greedily=self._greedy,
            accepts_greedy=self._greedy,
            send_window=rng.choice((0, 100, 65_536)),
            receive_window=rng.choice((0, 100, 65_536)),
            credit=rng.randint(1, 6),
            policy=policy,
        )

    def _beginning(self, log: Sequence[LoggedEntry]) -> list[GivenEntry]:
        """A prefix of the log, or scattered entries with their lower pools; some without payloads."""
        rng = self._rng
        if rng.random() < 0.5:
            held = set(range(1, rng.randint(1, LENGTH + 1)))
        else:
            scattered = rng.sample(range(1, LENGTH + 1), rng.randint(0, 25))
            held = {number for seq_num in scattered for number in lower_pool(seq_num)}
        given = []
        for seq_num in sorted(held):
            one = log[seq_num - 1]
            has_payload = rng.random() < 0.7
            parts: tuple[tuple[int, bytes], ...] = ()
            if not has_payload and self._greedy and len(one.payload) > 1 and rng.random() < 0.6:
                cut = rng.randint(1, len(one.payload) - 1)
                start, end = rng.choice(((0, cut), (cut, len(one.payload))))
                part = one.payload[start:end]
                parts = ((start, bytes(len(part)) if rng.random() < 0.3 else part),)
            given.append(GivenEntry(one.entry_bytes, one.payload if has_payload else None, parts))
        return given

    def _connected(self, index: int) -> tuple[_End, _End]:
        first, second = self.peers[index], self.peers[index + 1]
        return (
            self._end(first, first.connect(f"to {index + 1}", is_proactive=True, now_ms=0)),
            self._end(second, second.connect(f"to {index}", is_proactive=False, now_ms=0)),
        )

    def _end(self, peer: Peer, connection: Connection) -> _End:
        sizes = [
            (len(one.payload), len(other.payload)) for one, other in zip(self._log, self._branch, strict=True)
        ]
        return _End(peer, connection, witness=DataWitness(self._flavour, sizes))

    # What happens.

    def _act(self) -> None:
        rng = self._rng
        index = rng.randrange(len(self._pairs))
        if rng.random() < 0.002:
            # What was under way is lost, and what was held stays.
            self._pairs[index] = self._connected(index)
        pair = self._pairs[index]
        end, other = pair if rng.random() < 0.5 else pair[::-1]
        chance = rng.random()
        if chance < 0.15:
            self._decide(end)
        elif chance < 0.45:
            self._deliver_control(end, other, rng.randint(1, 400))
        elif chance < 0.7:
            self._deliver_data(end, other, rng.randint(1, 400))
        else:
            self._make_data(end, other)
        self._settle()

    def _decide(self, end: _End) -> None:
        rng = self._rng
        requests = end.connection.requests
        with suppress(CallRefused, RangeViolated):
            chance = rng.random()
            if chance < 0.5:
                end.connection.propose(self._draw_range(end))
            elif chance < 0.65 and requests:
                self._adjust(end)
            elif chance < 0.8 and requests:
                end.connection.cancel(rng.choice(requests).id, rng.choice(_CANCELS))
            else:
                self._publish(end)

    def _draw_range(self, end: _End) -> RequestedRange:
        rng = self._rng
        start = rng.randint(1, LENGTH)
        last = rng.choice((None, rng.randint(start, LENGTH)))
        held = end.peer.store.entry(LOG, start)
        offset = rng.randint(0, held.entry.payload_size) if held and rng.random() < 0.2 else None
        eagerness = rng.choice((Eagerness.ALL,) * 3 + (Eagerness.NOTIFY, Eagerness.THRESHOLD))
        return RequestedRange(
            *LOG,
            start,
            lower=rng.choice((None, None, 1, start)) if offset is None else None,
            min_size=rng.choice((0, 0, 10)),
            max_size=rng.choice((MAX_SIZE, 40)),
            eagerness=eagerness,
            threshold=rng.randint(0, 60) if eagerness is Eagerness.THRESHOLD else None,
            end=last,
            upper=rng.choice(upper_pool(last)) if last is not None and rng.random() < 0.4 else None,
            offset=offset,
            payload_only=rng.random() < 0.2,
            sparse=last is not None and rng.random() < 0.3,
            mandatory=rng.random() < 0.2,
            direction=rng.choice((Direction.BOTH,) * 4 + (Direction.PULL, Direction.PUSH)),
        )

    def _adjust(self, end: _End) -> None:
        rng = self._rng
        request = rng.choice(end.connection.requests)
        eagerness = rng.choice((None, *Eagerness))
        # Raising eagerness is for ends that hold what they were notified of (R53).
        if request.own.ever_notified and eagerness is not Eagerness.NOTIFY:
            eagerness = None
        if request.is_unanswered:
            eagerness = eagerness or Eagerness.ALL
        message = Adjust(
            request.id,
            eagerness,
            rng.randint(0, 60) if eagerness is Eagerness.THRESHOLD else None,
            may_skip=True,
            min_size=rng.choice((None, max(request.own.min_size, 5))),
            max_size=rng.choice((None, min(request.own.max_size, 30))),
        )
        end.connection.adjust(message)

    def _publish(self, end: _End) -> None:
        one = self._rng.choice(self._branch if end.peer is self.peers[-1] else self._log)
        if all(end.peer.store.entry(LOG, number) for number in lower_pool(one.seq_num)[1:]):
            end.peer.add([GivenEntry(one.entry_bytes, self._rng.choice((None, one.payload)))])

    # How it is carried.

    def _make_data(self, end: _End, other: _End) -> None:
        # As drivers do: what is not due is not asked for.
        data = end.connection.next_data() if end.connection.data_is_due else b""
        if end.witness is not None:
            try:
                end.witness.look(data, end.connection, other.connection)
            except SimulationError as error:
                raise self._fault(str(error)) from None
        end.data.write(data)

    def _deliver_control(self, end: _End, other: _End, size: int) -> None:
        if data := end.control.read(size):
            other.connection.receive_control(data, 0)

    def _deliver_data(self, end: _End, other: _End, size: int) -> None:
        if data := end.data.read(size):
            other.connection.receive_all_data(data, 0)

    def _settle(self) -> None:
        for peer in self.peers:
            peer.settle()
        for pair in self._pairs:
            for end in pair:
                end.control.write(end.connection.take_control())
                if end.connection.dropped is not None:
                    raise self._fault(f"a connection was dropped: {end.connection.dropped!r}")

    def _carry_all(self) -> None:
        for _ in range(_QUIET_AFTER):
            moved = False
            for first, second in self._pairs:
                for end, other in ((first, second), (second, first)):
                    self._make_data(end, other)
                    self._settle()
                    moved = moved or bool(len(end.control) + len(end.data))
                    self._deliver_control(end, other, len(end.control))
                    self._deliver_data(end, other, len(end.data))
                    self._settle()
            if not moved:
                return
        raise self._fault("the ends never fall silent")

    def _cancel_all(self) -> None:
        for _ in range(_CALM_ROUNDS):
            cancelled = False
            for pair in self._pairs:
                for end in pair:
                    for request in end.connection.requests:
                        with suppress(CallRefused):
                            end.connection.cancel(request.id, CancelCode.DONE)
                            cancelled = True
            self._settle()
            self._carry_all()
            if not cancelled:
                return

    # What must hold.

    def _check_freed(self) -> None:
        for pair in self._pairs:
            for end, other in (pair, pair[::-1]):
                if end.connection.requests:
                    raise self._fault(f"requests are never freed: {end.connection.requests}")
                granted, credit = end.connection.granted, other.connection.credit
                if granted != credit or granted != end.peer.settings.credit:
                    raise self._fault(f"credit is lost: {credit} and {granted}")

    def _check_held(self) -> None:
        for peer in self.peers:
            for one, other in zip(self._log, self._branch, strict=True):
                held = peer.store.entry(LOG, one.seq_num)
                if held is None:
                    continue
                written = next((each for each in (one, other) if each.entry_bytes == held.entry_bytes), None)
                if written is None:
                    raise self._fault(f"a wrong entry {one.seq_num} is held")
                if (
                    peer.store.has_payload(LOG, one.seq_num)
                    and peer.store.read_payload(LOG, one.seq_num, 0, 10_000) != written.payload
                ):
                    raise self._fault(f"a wrong payload {one.seq_num} is held")
            if peer.store.fork_proof(LOG) is not None and not self._is_forked:
                raise self._fault("a log is called forked that is not")

    def _check_catch_up(self) -> None:
        """New connections that ask for everything bring neighbours' prefixes to each other."""
        for first, second in ((self.peers[0], self.peers[1]), (self.peers[1], self.peers[0])):
            source, target = Peer(first.store, PeerSettings()), Peer(second.store, PeerSettings())
            ends = (
                self._end(source, source.connect("target", is_proactive=False, now_ms=0)),
                self._end(target, target.connect("source", is_proactive=True, now_ms=0)),
            )
            self.peers, self._pairs = [source, target], [ends]
            self._settle()
            self._carry_all()
            ends[1].connection.propose(RequestedRange(*LOG, 1, lower=1, direction=Direction.PULL))
            self._settle()
            self._carry_all()
            reached = source.store.end_of_held_entries(LOG, 1)
            for one in self._log[: reached - 1]:
                if source.store.unverified(LOG, one.seq_num):
                    # More of it may come, so it is neither sent nor passed over (R65).
                    break
                lacks = target.store.entry(LOG, one.seq_num) is None or (
                    source.store.has_payload(LOG, one.seq_num)
                    and not target.store.has_payload(LOG, one.seq_num)
                )
                if lacks:
                    raise self._fault(f"entry {one.seq_num} was asked for, and did not come")

    def _fault(self, what: str) -> SimulationError:
        return SimulationError(f"seed {self._seed}: {what}")
