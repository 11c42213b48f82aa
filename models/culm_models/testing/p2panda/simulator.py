"""Peers, links and faults, all from one seed: the same seed gives the same run, action by action.

A run has two parts. In the first, actions are drawn at random: peers write, links carry a few bytes, break
and come back, storing is late or fails, peers crash, change their interests, begin and leave sessions, and
a liar talks to some of them. In the second no more faults happen, and within a bounded time every peer must
hold every log; what is written after that must reach everyone through the sessions that are then live.
"""

import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.bamboo.log_store import LogKey
from culm_models.p2panda.events import SessionFailed
from culm_models.p2panda.ingest import LogBusyError
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.sessions import errors as session_errors
from culm_models.p2panda.sessions.session import SessionState
from culm_models.testing.errors import InvariantError, SimulationError
from culm_models.testing.memory_link import MemoryLink
from culm_models.testing.p2panda.checker import check_as_written, check_contiguous, differences
from culm_models.testing.p2panda.network import Network
from culm_models.testing.p2panda.node import Node
from culm_models.testing.p2panda.scenario import SCHEMAS, written

_TRACE_LENGTH: Final = 40
_STEP_MS: Final = 1_000
_MAX_CALM_ROUNDS: Final = 200
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
    """A log that is being written at one node, `height` entries of `entries` so far."""

    home: Node
    entries: tuple[CheckedOperation, ...]
    height: int = 0


class Simulation:
    """One run: faults, and the calm after them. `now` is in milliseconds; `trace` holds the last actions."""

    def __init__(self, seed: int, actions: int = 150) -> None:
        self.seed = seed
        self.actions = actions
        self.now = 1_700_000_000_000
        self.rng = rng = random.Random(seed)
        self.network = Network(rng)
        self.trace: deque[str] = deque(maxlen=_TRACE_LENGTH)
        self.is_calm = False
        homes = list(self.nodes.values())
        self.logs = [Log(rng.choice(homes), entries) for entries in rng.sample(written(), rng.randint(2, 6))]
        if rng.random() < 0.3:
            self.network.add_liar()
        for node in homes:
            node.interests = SCHEMAS
            node.start(self.now)

    @property
    def nodes(self) -> dict[bytes, Node]:
        """The peers, by their ids."""
        return self.network.nodes

    def run(self) -> None:
        """Both parts. Raises `SimulationError`."""
        try:
            for _ in range(self.actions):
                self.act()
            self._check()
            self._calm_down()
            self._check_live()
        except Exception as error:
            steps = "\n  ".join(self.trace)
            raise SimulationError(
                f"seed {self.seed}: {type(error).__name__}: {error}\n  {steps}\n"
                f"replay with CULM_SIM_SEED={self.seed}"
            ) from error

    # Faults.

    def act(self) -> None:
        """Draw one action and do it."""
        names = tuple(_ACTIONS)
        weights = [weight for weight, _ in _ACTIONS.values()]
        name = self.rng.choices(names, weights)[0]
        self.now += self.rng.choice((0, 1, 20))
        self.trace.append(name)
        _ACTIONS[name][1](self)

    def _any_node(self) -> Node:
        return self.rng.choice(list(self.nodes.values()))

    def _some_link(self, *, up: bool) -> MemoryLink | None:
        fitting = [link for link in self.network.links if link.is_up is up]
        return self.rng.choice(fitting) if fitting else None

    def write(self) -> None:
        """An author writes its next entry."""
        log = self.rng.choice(self.logs)
        if log.height < len(log.entries):
            checked = log.entries[log.height]
            try:
                log.home.peer.publish(checked.entry_bytes, checked.payload_bytes, self.now)
            except LogBusyError:
                # The liar knew this log, and what it brought of it is not stored yet.
                return
            log.height += 1

    def connect(self) -> None:
        """A link comes up."""
        link = self._some_link(up=False)
        if link is not None:
            self.network.bring_up(link, self.now)

    def cut(self) -> None:
        """A link breaks."""
        link = self._some_link(up=True)
        if link is not None:
            self.network.break_off(link, self.now)

    def carry(self) -> None:
        """A few messages enter a link and a few bytes leave it."""
        link = self._some_link(up=True)
        if link is not None:
            self.network.fill(link, self.rng.choice((1, 2, 50)))
            end = self.rng.choice(link.ends)
            self.network.deliver(link, end, self.rng.choice((1, 7, 100, 300, 5_000)), self.now)

    def store(self) -> None:
        """Some staged entries become durable."""
        self._any_node().store_staged(self.rng.choice((1, 3, 100)), self.now)

    def fail_to_store(self) -> None:
        """Storing fails."""
        self._any_node().fail_to_store(self.rng, self.now)

    def crash(self) -> None:
        """A peer stops without warning and starts again from its store."""
        node = self._any_node()
        for link in self.network.links:
            if link.is_up and node.peer_id in link.ends:
                self.network.break_off(link, self.now)
        node.start(self.now)

    def pass_time(self) -> None:
        """Some time passes."""
        self.now += self.rng.choice((100, 1_000, 6_000, 30_000))
        for node in self.nodes.values():
            node.peer.tick(self.now)

    def announce(self) -> None:
        """A peer changes its interests."""
        self._any_node().announce(self.rng.sample(SCHEMAS, self.rng.randint(0, len(SCHEMAS))), self.now)

    def sync(self) -> None:
        """Either side of a link begins a session."""
        link = self._some_link(up=True)
        if link is not None:
            for end in self.rng.sample(link.ends, self.rng.randint(1, 2)):
                if end in self.nodes:
                    wanted = self.rng.sample(SCHEMAS, self.rng.randint(1, len(SCHEMAS)))
                    mode = self.rng.choice((0, 1))
                    self.nodes[end].peer.sync(link.other_end(end), mode, wanted, self.now)

    def stop_live(self) -> None:
        """A peer leaves live mode."""
        node = self._any_node()
        for remote in node.peer.remotes:
            for session in node.peer.sessions(remote):
                node.peer.stop_live(remote, session.session_id, self.now)

    # The calm.

    def _calm_down(self) -> None:
        """No more faults: everyone must come to hold everything."""
        self.trace.append("calm")
        self.is_calm = True
        for node in self.nodes.values():
            node.take_events()
            node.events.clear()
        self.network.drop_liars(self.now)
        for node in self.nodes.values():
            node.announce(SCHEMAS, self.now)
        for link in self.network.links:
            # Entries that were taken and could not be stored are only asked for by a new session.
            if link.is_up:
                self.network.break_off(link, self.now)
            self.network.bring_up(link, self.now)
        for _ in range(_MAX_CALM_ROUNDS):
            self._settle()
            if not self._lacking() and self._is_live():
                break
            self.now += _STEP_MS
            for node in self.nodes.values():
                node.peer.tick(self.now)
        else:
            raise InvariantError(f"not converged: {self._lacking()[:3]}, live: {self._is_live()}")
        self._check()

    def _settle(self) -> None:
        """Carry and store until nothing moves; nothing is asked for by the passing of time."""
        moving = True
        while moving:
            moving = False
            for link in self.network.links:
                self.network.fill(link, 1_000)
                for end in link.ends:
                    moving = moving or bool(link.towards(end))
                    self.network.deliver(link, end, self.rng.choice((100, 5_000, 10_000_000)), self.now)
            for node in self.nodes.values():
                moving = moving or bool(node.staged)
                node.store_staged(1_000, self.now)

    @property
    def _all_offer_live(self) -> bool:
        return all(node.settings.offers_live_mode for node in self.nodes.values())

    def _is_live(self) -> bool:
        """Where all want live mode: every link carries every schema live, at both ends alike."""
        if not self._all_offer_live:
            return True
        for link in self.network.links:
            live = [
                {
                    (session.session_id, session.schema_ids)
                    for session in self.nodes[end].peer.sessions(link.other_end(end))
                    if session.state is SessionState.LIVE
                }
                for end in link.ends
            ]
            if live[0] != live[1] or {name for _, names in live[0] for name in names} != set(SCHEMAS):
                return False
        return True

    def _check_live(self) -> None:
        """What is written now reaches everyone, without any new session."""
        if not self._all_offer_live:
            return
        started = sum(node.peer.counts["session_started"] for node in self.nodes.values())
        for _ in self.logs:
            self.write()
        self._settle()
        if self._lacking():
            raise InvariantError(f"not brought live: {self._lacking()[:3]}")
        if started != sum(node.peer.counts["session_started"] for node in self.nodes.values()):
            raise InvariantError("a session was begun in the calm")
        for node in self.nodes.values():
            if node.peer.staged_count:
                raise InvariantError(f"{node} holds entries as staged that are stored")
        self._check()

    def _expected(self) -> dict[LogKey, int]:
        expected: dict[LogKey, int] = {}
        for log in self.logs:
            if log.height:
                expected[log.entries[0].log] = log.height
        return expected

    def _lacking(self) -> Sequence[tuple[bytes, int, int]]:
        expected = self._expected()
        lacking: list[tuple[bytes, int, int]] = []
        for node in self.nodes.values():
            for key, height in _at_most(differences(node.store, SCHEMAS, expected), expected):
                lacking.append((node.peer_id[:2], key[1], height))
        return lacking

    def _check(self) -> None:
        self._check_nobody_is_blamed()
        originals = {
            entries[0].log: [(checked.entry_bytes, checked.payload_bytes) for checked in entries]
            for entries in written()
        }
        for node in self.nodes.values():
            check_contiguous(node.store, SCHEMAS)
            check_as_written(node.store, SCHEMAS, originals)

    def _check_nobody_is_blamed(self) -> None:
        """Peers that keep to the protocol never fail each other's sessions for breaking it.

        Before the calm they may: where one has given up waiting, ids of the two sides may cross.
        """
        for node in self.nodes.values():
            for event in node.events if self.is_calm else ():
                if (
                    isinstance(event, SessionFailed)
                    and event.remote in self.nodes
                    and event.code not in _BLAMELESS
                ):
                    raise InvariantError(f"{node} blames {event.remote.hex()[:4]}: {event.message}")


def _at_most(
    found: Sequence[tuple[bytes, int, int]], expected: dict[LogKey, int]
) -> list[tuple[LogKey, int]]:
    """The logs that are too short: a liar may have known more of a log than was written in this run."""
    return [
        ((public_key, log_id), height)
        for public_key, log_id, height in found
        if height < expected[public_key, log_id]
    ]


_ACTIONS: Final[dict[str, tuple[int, Callable[[Simulation], None]]]] = {
    "write": (20, Simulation.write),
    "carry": (90, Simulation.carry),
    "store": (25, Simulation.store),
    "connect": (12, Simulation.connect),
    "cut": (3, Simulation.cut),
    "fail to store": (1, Simulation.fail_to_store),
    "crash": (1, Simulation.crash),
    "pass time": (3, Simulation.pass_time),
    "announce": (2, Simulation.announce),
    "sync": (4, Simulation.sync),
    "stop live": (1, Simulation.stop_live),
}


def simulate(seed: int, actions: int = 150) -> Simulation:
    """Run one simulation to its end. Raises `SimulationError`."""
    simulation = Simulation(seed, actions)
    simulation.run()
    return simulation
