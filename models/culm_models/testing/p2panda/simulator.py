"""Peers, links and faults, all from one seed.

A run has two parts. In the first, actions are drawn at random: peers write, links break and come back,
storing is late or fails, peers crash, change their interests, begin and leave sessions, and a liar sends to
some of them. In the second, there are no more faults, and within a limited time every peer must hold every
log. Entries that are written after that must reach all peers through the sessions that are then live.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda import errors as session_errors
from culm_models.p2panda.events import LinkFailed, SessionFailed
from culm_models.p2panda.ingest import LogBusyError
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.sessions.session import SessionState
from culm_models.testing.errors import InvariantError
from culm_models.testing.p2panda.liar import Liar
from culm_models.testing.p2panda.node import P2pandaNode
from culm_models.testing.p2panda.scenario import (
    SCHEMAS,
    check_as_written,
    check_contiguous,
    differences,
    draw_settings,
    forked,
    written,
)
from culm_models.testing.simulation import Faults, SimulatedLink, SimulatedNode, Simulation

_STEP_MS: Final = 1_000
_MAX_CALM_ROUNDS: Final = 200
_QUIET_MS: Final = 200
_BLAMELESS: Final = {
    error.code
    for error in (
        session_errors.DisconnectedError,
        session_errors.HaveTooLargeError,
        session_errors.NotAnnouncedError,
        session_errors.RefusedError,
        session_errors.SessionTimeoutError,
    )
}


@dataclass(slots=True)
class Log:
    """A log that is written at one node, with `height` of its `entries` so far."""

    home: P2pandaNode
    entries: tuple[CheckedOperation, ...]
    height: int = 0


class LiarNode(SimulatedNode):
    """A liar among the nodes, which sends while a link is up and ignores what it receives."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__()
        known = [checked for entries in written() for checked in entries[:3]]
        self._rng = rng
        self._liar = Liar(rng, SCHEMAS, [*forked(), *known])
        self._others: set[str] = set()
        self._due_ms = 0

    def tick(self, now_ms: int) -> None:
        """Send random messages to each peer."""
        for other in sorted(self._others):
            words = [self._liar.next_bytes() for _ in range(self._rng.randint(1, 12))]
            self.queued.append((other, b"".join(words)))
        self._due_ms = now_ms + self._rng.randint(1, 100)

    def next_due_ms(self) -> int | None:
        """Return the next time to send; None without a link."""
        return self._due_ms if self._others else None

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Begin to send to a peer."""
        self._liar.connected()
        self._others.add(other)

    def disconnected(self, other: str, now_ms: int) -> None:
        """Stop sending to a peer."""
        self._others.discard(other)


class P2pandaSimulation(Simulation[P2pandaNode | LiarNode]):
    """One run: faults, and the calm after them."""

    def __init__(self, seed: int, actions: int = 80) -> None:
        super().__init__(seed)
        self.actions = actions
        self.is_calm = False
        rng = self.rng
        self.faults = Faults(
            delay_ms=(1, rng.choice((5, 50, 500))),
            pace_ms=(0, rng.choice((1, 50))),
            piece_bytes=(1, 7, 100, 300, 5_000),
        )
        self.peers: dict[str, P2pandaNode] = {}
        for number, settings in enumerate(draw_settings(rng, rng.randint(2, 5))):
            peer_id = bytes((rng.randrange(256), number)) * 16
            self.peers[peer_id.hex()] = P2pandaNode(peer_id, settings, in_steps=rng.random() < 0.8, rng=rng)
        self.nodes.update(self.peers)
        self._link_peers()
        homes = list(self.peers.values())
        self.logs = [Log(rng.choice(homes), entries) for entries in rng.sample(written(), rng.randint(2, 6))]
        if rng.random() < 0.3:
            liar = (bytes((rng.randrange(256), 255)) * 16).hex()
            self.nodes[liar] = LiarNode(rng)
            for victim in rng.sample(list(self.peers), min(2, len(self.peers))):
                self.add_link(*rng.sample((liar, victim), 2))
        for node in homes:
            node.interests = SCHEMAS
            node.start(self.now_ms)

    def _link_peers(self) -> None:
        """Link the peers as a tree with up to two additional links."""
        names, rng = list(self.peers), self.rng
        for number, name in enumerate(names[1:], 1):
            self.add_link(*rng.sample((name, rng.choice(names[:number])), 2))
        for _ in range(rng.randrange(3)):
            first, second = rng.sample(names, 2)
            if self.link(first, second) is None:
                self.add_link(first, second)

    # Faults.

    def disturb(self) -> None:
        """Draw random actions and perform them."""
        weights = [weight for weight, _ in _ACTIONS.values()]
        for _ in range(self.actions):
            name = self.rng.choices(tuple(_ACTIONS), weights)[0]
            self.run_until(self.now_ms + self.rng.choice((0, 1, 20, 100)))
            self.note(name)
            _ACTIONS[name][1](self)
        self._check_stores()

    def _any_peer(self) -> str:
        return self.rng.choice(list(self.peers))

    def write(self) -> None:
        """Let an author write its next entry."""
        log = self.rng.choice(self.logs)
        if log.height < len(log.entries):
            checked = log.entries[log.height]
            try:
                log.home.peer.publish(checked.entry_bytes, checked.payload_bytes, self.now_ms)
            except LogBusyError:
                # The liar knew this log, and its entries of the log are not stored yet.
                return
            log.height += 1
            self.stepped(log.home.peer_id.hex())

    def bring_up(self) -> None:
        """Bring a link up."""
        link = self.any_link(up=False)
        if link is not None:
            self.connect(link)

    def break_off(self) -> None:
        """Break a link."""
        link = self.any_link(up=True)
        if link is not None:
            self.cut(link)

    def fail_to_store(self) -> None:
        """Let storing fail at a peer."""
        name = self._any_peer()
        self.peers[name].fail_to_store(self.now_ms)
        self.stepped(name)

    def crash(self) -> None:
        """Stop a peer without warning and start it again from its store."""
        name = self._any_peer()
        self.cut_off(name)
        self.peers[name].start(self.now_ms)

    def pass_time(self) -> None:
        """Let time pass in which nothing arrives."""
        self.now_ms += self.rng.choice((100, 1_000, 6_000, 30_000))
        self.tick_all()

    def announce(self) -> None:
        """Change a peer's interests."""
        name = self._any_peer()
        self.peers[name].announce(self.rng.sample(SCHEMAS, self.rng.randint(0, len(SCHEMAS))), self.now_ms)
        self.stepped(name)

    def sync(self) -> None:
        """Begin a session from one or both sides of a link."""
        link = self.any_link(up=True)
        if link is not None:
            for end in self.rng.sample(link.ends, self.rng.randint(1, 2)):
                if end in self.peers:
                    wanted = self.rng.sample(SCHEMAS, self.rng.randint(1, len(SCHEMAS)))
                    remote = bytes.fromhex(link.other_end(end))
                    self.peers[end].peer.sync(remote, self.rng.choice((0, 1)), wanted, self.now_ms)
                    self.stepped(end)

    def stop_live(self) -> None:
        """Leave all live sessions of a peer."""
        name = self._any_peer()
        peer = self.peers[name].peer
        for remote in peer.remotes:
            for session in peer.sessions(remote):
                peer.stop_live(remote, session.session_id, self.now_ms)
        self.stepped(name)

    # The calm.

    def calm_down(self) -> None:
        """Continue without faults until all peers hold everything."""
        self.faults = Faults(delay_ms=(0, 10), piece_bytes=(100, 5_000, 10_000_000))
        for node in self.peers.values():
            node.take_events()
            self._check_links(node)
            node.events.clear()
        for link in self.links:
            # Entries that were accepted and could not be stored are only requested by a new session.
            if link.is_up:
                self.cut(link)
        self.is_calm = True
        self.links = [link for link in self.links if self.peers.keys() >= set(link.ends)]
        self.nodes = dict(self.peers)
        for node in self.peers.values():
            node.announce(SCHEMAS, self.now_ms)
        for link in self.links:
            self.connect(link)
        for _ in range(_MAX_CALM_ROUNDS):
            self.settle(_QUIET_MS)
            if not self._lacking() and self._is_live():
                break
            self.now_ms += _STEP_MS
            self.tick_all()
        else:
            raise InvariantError(f"not converged: {self._lacking()[:3]}, live: {self._is_live()}")
        self._check_stores()

    @property
    def _all_offer_live(self) -> bool:
        return all(node.settings.offers_live_mode for node in self.peers.values())

    def _is_live(self) -> bool:
        """Whether every link carries every schema live, with equal sessions at both ends.

        Always true if not all peers want live mode.
        """
        return not self._all_offer_live or all(map(self._carries_live, self.links))

    def _carries_live(self, link: SimulatedLink) -> bool:
        live = [
            {
                (session.session_id, session.schema_ids)
                for session in self.peers[end].peer.sessions(bytes.fromhex(link.other_end(end)))
                if session.state is SessionState.LIVE
            }
            for end in link.ends
        ]
        return live[0] == live[1] and {name for _, names in live[0] for name in names} == set(SCHEMAS)

    def check(self) -> None:
        """Check that new entries reach all peers without a new session."""
        if not self._all_offer_live:
            return
        started = self._sessions_started()
        for _ in self.logs:
            self.write()
        self.settle(_QUIET_MS)
        if self._lacking():
            raise InvariantError(f"not received live: {self._lacking()[:3]}")
        if started != self._sessions_started():
            raise InvariantError("a session was begun in the calm")
        for node in self.peers.values():
            if node.peer.staged_count:
                raise InvariantError(f"{node} holds entries as staged that are stored")
        self._check_stores()

    def _sessions_started(self) -> int:
        return sum(node.peer.counts["session_started"] for node in self.peers.values())

    def _lacking(self) -> Sequence[tuple[bytes, int, int]]:
        """Return the logs that are too short; longer ones are allowed, because a liar may know more."""
        expected: dict[LogKey, int] = {log.entries[0].log: log.height for log in self.logs if log.height}
        return [
            (node.peer_id[:2], log_id, height)
            for node in self.peers.values()
            for public_key, log_id, height in differences(node.store, SCHEMAS, expected)
            if height < expected[public_key, log_id]
        ]

    def _check_stores(self) -> None:
        originals = {
            entries[0].log: [(checked.entry_bytes, checked.payload_bytes) for checked in entries]
            for entries in written()
        }
        for node in self.peers.values():
            self._check_links(node)
            check_contiguous(node.store, SCHEMAS)
            check_as_written(node.store, SCHEMAS, originals)

    def _check_links(self, node: P2pandaNode) -> None:
        """Check that no link failed and that, in the calm, no session failed for a breach of the protocol.

        Before the calm, sessions may fail for it: after a timeout, ids of the two sides may cross.
        """
        for event in node.events:
            if event.remote.hex() not in self.peers:
                continue
            if isinstance(event, LinkFailed):
                raise InvariantError(f"{node} could not read what {event.remote.hex()[:4]} sent")
            if self.is_calm and isinstance(event, SessionFailed) and event.code not in _BLAMELESS:
                raise InvariantError(f"{node} blames {event.remote.hex()[:4]}: {event.message}")


_ACTIONS: Final[dict[str, tuple[int, Callable[[P2pandaSimulation], None]]]] = {
    "write": (20, P2pandaSimulation.write),
    "bring up": (12, P2pandaSimulation.bring_up),
    "break off": (3, P2pandaSimulation.break_off),
    "fail to store": (1, P2pandaSimulation.fail_to_store),
    "crash": (1, P2pandaSimulation.crash),
    "pass time": (3, P2pandaSimulation.pass_time),
    "announce": (2, P2pandaSimulation.announce),
    "sync": (4, P2pandaSimulation.sync),
    "stop live": (1, P2pandaSimulation.stop_live),
}
