"""A row of ends under random orders and delays, all from one seed.

Neighbours in the row are connected. Each of the four directions of a connection is delayed independently and
split anywhere, so that data overtakes control and the reverse. First, actions are random: ranges are
proposed, adjusted, refused and cancelled, entries are published, and connections are lost and created again.
In greedy runs, some ends hold wrong parts of payloads, and in some runs, one end has another branch of the
log. Then everything is delivered, and cancelled, until nothing is left.

Invariants: no end ever drops another. Nothing is sent beyond what was requested (`DataWitness`). Every
request is freed. Credit is equal at both ends, and back at its initial value. Nothing is held that its author
did not write. And everything requested last arrives, if a neighbour has it and the log is not forked.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.entry import lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YAMF, YASMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.errors import CallRefused, RangeViolated
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings, Direction, Policy, PolicyAnswer
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Adjust, CancelCode, Eagerness
from culm_models.keys import KeyPair
from culm_models.testing.bamboo_p2p.node import BambooNode
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import Faults, Simulation

_CANCELS: Final = (CancelCode.REFUSED, CancelCode.RESOURCES, CancelCode.DONE, CancelCode.MANDATORY)
_CALM_ROUNDS: Final = 200
_STEP_MS: Final = 10


class BambooP2pSimulation(Simulation[BambooNode]):
    """One run with this number of random actions."""

    def __init__(self, seed: int, actions: int = 40) -> None:
        super().__init__(seed)
        self.actions = actions
        rng = self.rng
        self.faults = Faults(
            delay_ms=(1, rng.choice((3, 20, 60))),
            pace_ms=(0, rng.choice((1, 20))),
            piece_bytes=rng.choice(((1, 10, 400), (50, 400))),
        )
        self._greedy = rng.random() < 0.5
        self._flavour = rng.choice((YASMF, YASMF, YAMF))
        self._log = the_log(self._flavour)
        forked_at = rng.randint(1, LENGTH) if rng.random() < 0.15 else LENGTH + 1
        self._branch = the_log(self._flavour, forked_at=forked_at)
        self._is_forked = forked_at <= LENGTH
        peers = [
            Peer(MemoryBambooStore(self._flavour), self._settings())
            for _ in range(rng.choice((2, 2, 2, 3, 4)))
        ]
        self._last = peers[-1]
        for peer in peers:
            peer.add(self._beginning(self._branch if peer is self._last else self._log))
        self._join(peers)

    def _join(self, peers: Sequence[Peer]) -> None:
        """Replace the nodes by these peers, in a row."""
        sizes = [
            (len(main_entry.payload), len(branch_entry.payload))
            for main_entry, branch_entry in zip(self._log, self._branch, strict=True)
        ]
        self.nodes, self.links = {}, []
        for number, peer in enumerate(peers):
            self.nodes[str(number)] = BambooNode(str(number), peer, self.nodes, sizes, self.rng)
            if number:
                self.add_link(str(number - 1), str(number))
        for link in self.links:
            self.connect(link)

    def _settings(self) -> BambooSettings:
        rng = self.rng
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
        return BambooSettings(
            sends_greedily=self._greedy,
            accepts_greedy=self._greedy,
            send_window=rng.choice((0, 100, 65_536)),
            receive_window=rng.choice((0, 100, 65_536)),
            credit=rng.randint(1, 6),
            policy=policy,
        )

    def _beginning(self, log: Sequence[LoggedEntry]) -> list[NewEntry]:
        """Return a prefix of the log, or scattered entries with their lower pools; some without payloads."""
        rng = self.rng
        if rng.random() < 0.5:
            seq_nums = set(range(1, rng.randint(1, LENGTH + 1)))
        else:
            scattered = rng.sample(range(1, LENGTH + 1), rng.randint(0, 25))
            seq_nums = {number for seq_num in scattered for number in lower_pool(seq_num)}
        entries = []
        for seq_num in sorted(seq_nums):
            logged = log[seq_num - 1]
            has_payload = rng.random() < 0.7
            parts: tuple[tuple[int, bytes], ...] = ()
            if not has_payload and self._greedy and len(logged.payload) > 1 and rng.random() < 0.6:
                cut = rng.randint(1, len(logged.payload) - 1)
                start, end = rng.choice(((0, cut), (cut, len(logged.payload))))
                part = logged.payload[start:end]
                parts = ((start, bytes(len(part)) if rng.random() < 0.3 else part),)
            entries.append(NewEntry(logged.entry_bytes, logged.payload if has_payload else None, parts))
        return entries

    # Random actions.

    def disturb(self) -> None:
        """Perform random actions and deliver their data."""
        for _ in range(self.actions):
            link = self.rng.choice(self.links)
            if self.rng.random() < 0.015:
                # Data in transit is lost; held data stays.
                self.connect(link)
            end, other = self.rng.sample(link.ends, 2)
            self._decide(self.nodes[end].peer, self.nodes[end].connection(other))
            self.stepped(end)
            self.run_until(self.now_ms + self.rng.randint(0, _STEP_MS))

    def _decide(self, peer: Peer, connection: BambooConnection) -> None:
        rng = self.rng
        requests = connection.requests
        with suppress(CallRefused, RangeViolated):
            chance = rng.random()
            if chance < 0.5:
                connection.propose(self._draw_range(peer))
            elif chance < 0.65 and requests:
                self._adjust(connection)
            elif chance < 0.8 and requests:
                connection.cancel(rng.choice(requests).id, rng.choice(_CANCELS))
            else:
                self._publish(peer)

    def _draw_range(self, peer: Peer) -> RequestedRange:
        rng = self.rng
        start = rng.randint(1, LENGTH)
        last = rng.choice((None, rng.randint(start, LENGTH)))
        stored = peer.store.entry(LOG, start)
        offset = rng.randint(0, stored.entry.payload_size) if stored and rng.random() < 0.2 else None
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

    def _adjust(self, connection: BambooConnection) -> None:
        rng = self.rng
        request = rng.choice(connection.requests)
        eagerness = rng.choice((None, *Eagerness))
        # Eagerness may only be raised by ends that hold what they were notified of (R53).
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
        connection.adjust(message)

    def _publish(self, peer: Peer) -> None:
        logged = self.rng.choice(self._branch if peer is self._last else self._log)
        if all(peer.store.entry(LOG, number) for number in lower_pool(logged.seq_num)[1:]):
            peer.add([NewEntry(logged.entry_bytes, self.rng.choice((None, logged.payload)))])

    # The end.

    def calm_down(self) -> None:
        """Deliver everything and cancel all open requests, until nothing is left."""
        self.faults = Faults(delay_ms=(0, 1))
        self.settle()
        for _ in range(_CALM_ROUNDS):
            cancelled = False
            for name, node in self.nodes.items():
                for connection in node.peer.connections.values():
                    for request in connection.requests:
                        with suppress(CallRefused):
                            connection.cancel(request.id, CancelCode.DONE)
                            cancelled = True
                self.stepped(name)
            self.settle()
            if not cancelled:
                return

    def check(self) -> None:
        """Check each end; then check that new connections that request everything receive it."""
        self._check_freed()
        peers = [node.peer for node in self.nodes.values()]
        for peer in peers:
            self._check_held(peer)
        if not self._is_forked:
            self._check_catch_up(peers[0], peers[1])
            self._check_catch_up(peers[1], peers[0])

    def _check_freed(self) -> None:
        for link in self.links:
            for end, other in (link.ends, link.ends[::-1]):
                connection = self.nodes[end].connection(other)
                if connection.requests:
                    raise InvariantError(f"requests are never freed: {connection.requests}")
                granted, credit = connection.granted, self.nodes[other].connection(end).credit
                if granted != credit or granted != self.nodes[end].peer.settings.credit:
                    raise InvariantError(f"credit is lost: {credit} and {granted}")

    def _check_held(self, peer: Peer) -> None:
        for logged, other in zip(self._log, self._branch, strict=True):
            stored = peer.store.entry(LOG, logged.seq_num)
            if stored is None:
                continue
            written = next((each for each in (logged, other) if each.entry_bytes == stored.entry_bytes), None)
            if written is None:
                raise InvariantError(f"a wrong entry {logged.seq_num} is held")
            if (
                peer.store.has_payload(LOG, logged.seq_num)
                and peer.store.read_payload(LOG, logged.seq_num, 0, 10_000) != written.payload
            ):
                raise InvariantError(f"a wrong payload {logged.seq_num} is held")
        if peer.store.fork_proof(LOG) is not None and not self._is_forked:
            raise InvariantError("a log is called forked that is not")

    def _check_catch_up(self, first: Peer, second: Peer) -> None:
        source, target = Peer(first.store, BambooSettings()), Peer(second.store, BambooSettings())
        self._join([target, source])
        self.settle()
        self.nodes["0"].connection("1").propose(RequestedRange(*LOG, 1, lower=1, direction=Direction.PULL))
        self.stepped("0")
        self.settle()
        reached = source.store.end_of_held_entries(LOG, 1)
        for logged in self._log[: reached - 1]:
            if source.store.unverified(LOG, logged.seq_num):
                # More of it may arrive, so it is neither sent nor skipped (R65).
                break
            is_missing = target.store.entry(LOG, logged.seq_num) is None or (
                source.store.has_payload(LOG, logged.seq_num)
                and not target.store.has_payload(LOG, logged.seq_num)
            )
            if is_missing:
                raise InvariantError(f"entry {logged.seq_num} was asked for, and did not come")


LENGTH = 40
_AUTHOR = KeyPair.generate(b"author of the simulation")
LOG: LogKey = (_AUTHOR.public_key, 7)


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """An entry of the log, with its payload."""

    seq_num: int
    entry_bytes: bytes
    payload: bytes


_SAID_OFTEN = b"what many payloads have in common, so that a window finds it again; "


def _payload(seq_num: int) -> bytes:
    """Return a payload of up to some hundred bytes; every fourth one shares content with others."""
    own = b"%d-" % seq_num * (seq_num * 7 % 23)
    return own + _SAID_OFTEN * (seq_num % 5) + own if seq_num % 4 == 3 else own


@cache
def the_log(flavour: HashFlavour = YASMF, *, forked_at: int = LENGTH + 1) -> tuple[LoggedEntry, ...]:
    """Return entries 1 to `LENGTH`; those from `forked_at` on are of another branch than the default."""
    hashes: dict[int, bytes] = {}
    entries = []
    for seq_num in range(1, LENGTH + 1):
        payload = _payload(seq_num) + (b"!" if seq_num >= forked_at else b"")
        entry = sign_entry(
            _AUTHOR,
            LOG[1],
            seq_num,
            payload,
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
            flavour=flavour,
        )
        hashes[seq_num] = flavour.hash(entry)
        entries.append(LoggedEntry(seq_num, entry, payload))
    return tuple(entries)
