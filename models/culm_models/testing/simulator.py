"""Peers, links and faults, all from one seed: the same seed gives the same run, action by action.

A run has two parts. In the first, actions are drawn at random: peers write, links carry a few bytes, break
and come back, storing is late or fails, peers crash, change their interests, begin and leave sessions, and
a liar talks to some of them. In the second no more faults happen, and within a bounded time every peer must
hold every log; what is written after that must reach everyone through the sessions that are then live.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from culm_models.p2panda import session_errors
from culm_models.p2panda.events import SessionFailed
from culm_models.p2panda.session import SessionState
from culm_models.p2panda.store import LogKey
from culm_models.testing.checker import InvariantError, check_as_written, check_contiguous, differences
from culm_models.testing.scenario import SCHEMAS, written
from culm_models.testing.turmoil import Turmoil

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


class SimulationError(AssertionError):
    """A run broke an invariant; the message names its seed and the last actions."""


@dataclass(slots=True)
class Simulation(Turmoil):
    """One run: the turmoil, and the calm after it."""

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

    def _calm_down(self) -> None:
        """No more faults: everyone must come to hold everything."""
        self.trace.append("calm")
        self.is_calm = True
        for node in self.nodes.values():
            node.take_events()
            node.events.clear()
        for peer_id in tuple(self.liars):
            for link in self.links:
                if peer_id in link.ends and link.is_up:
                    self.break_off(link)
            self.links = [link for link in self.links if peer_id not in link.ends]
        self.liars.clear()
        for node in self.nodes.values():
            node.announce(SCHEMAS, self.now)
        for link in self.links:
            # Entries that were taken and could not be stored are only asked for by a new session.
            if link.is_up:
                self.break_off(link)
            self.bring_up(link)
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
            for link in self.links:
                self.fill(link, 1_000)
                for end in link.ends:
                    moving = moving or bool(link.towards(end))
                    self.deliver(link, end, self.rng.choice((100, 5_000, 10_000_000)))
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
        for link in self.links:
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
            entries[0].log: [(checked.entry_bytes, checked.operation_bytes) for checked in entries]
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


def simulate(seed: int, actions: int = 150) -> Simulation:
    """Run one simulation to its end. Raises `SimulationError`."""
    simulation = Simulation(seed, actions)
    simulation.run()
    return simulation
