"""The event loop of all simulations: nodes in virtual time, and a network whose faults follow from a seed.

A node reaches others by broadcast messages, which may be lost, repeated, late and out of order, or by links:
reliable streams that arrive in pieces, and that break. The same seed gives the same run, event by event.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Generic, Self, TypeVar

from culm_models.testing.errors import InvariantError, SimulationError

START_MS: Final = 1_760_000_000_000
_TRACE_LENGTH: Final = 40
_STILL_MAX: Final = 200_000
"""This many events at the same time mean that a node requests ticks in vain, or never falls silent."""


class SimulatedNode:
    """A driver around one state machine of a protocol, with the data to send in `queued`."""

    def __init__(self) -> None:
        self.queued: list[tuple[str | None, bytes]] = []

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Process a message, or a piece of a stream; `sender` includes the lane, as receivers do."""

    def outgoing(self, now_ms: int) -> Iterable[tuple[str | None, bytes]]:
        """Return a bounded part of the bytes to send now, with the receiver, or None for a broadcast.

        The lane of a link follows the name after a slash. Empty bytes end the link once all bytes before them
        have arrived. The node is called again until it returns nothing.
        """
        queued, self.queued = self.queued, []
        return queued

    def tick(self, now_ms: int) -> None:
        """Do the work that is due at this time."""

    def next_due_ms(self) -> int | None:
        """Return the time of the next tick; None if no tick is needed."""
        return None

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Note that a link to another node is up."""

    def disconnected(self, other: str, now_ms: int) -> None:
        """Note that the link to another node is down."""


@dataclass(eq=False, slots=True)
class SimulatedLink:
    """Two nodes, and the bytes in transit between them, by receiver and lane."""

    dialler: str
    listener: str
    is_up: bool = False
    pipes: dict[tuple[str, str], bytearray] = field(default_factory=dict)

    @property
    def ends(self) -> tuple[str, str]:
        """Both ends, the dialler first."""
        return self.dialler, self.listener

    def other_end(self, end: str) -> str:
        """Return the opposite end."""
        return self.listener if end == self.dialler else self.dialler


Node = TypeVar("Node", bound=SimulatedNode)


@dataclass(slots=True)
class Faults:
    """Faults of the network. Chances are in [0, 1]; times are the shortest and the longest."""

    loss: float = 0.0
    repetition: float = 0.0
    echo: float = 0.0
    """Chance that a sender receives its own broadcast."""
    delay_ms: tuple[int, int] = (1, 50)
    pace_ms: tuple[int, int] = (0, 0)
    """Time that a node with data to send waits before it sends."""
    piece_bytes: Sequence[int] = (1 << 20,)
    """Maximum sizes of the pieces in which a stream arrives."""


class Network(Generic[Node]):
    """Nodes in virtual time. After a call into a node, `stepped` schedules the sending of its data."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now_ms = START_MS
        self.nodes: dict[str, Node] = {}
        self.links: list[SimulatedLink] = []
        self.faults = Faults()
        self.trace: deque[str] = deque(maxlen=_TRACE_LENGTH)
        self._sides: dict[str, int] = {}
        self._agenda: list[tuple[int, int, bool, Callable[[], None]]] = []
        self._planned = self._traffic = self._still = 0
        self._sending: set[str] = set()
        self._ticks: dict[str, int] = {}

    def note(self, what: str) -> None:
        """Add a line to the trace."""
        self.trace.append(f"{self.now_ms - START_MS:>9} {what}")

    # Time.

    def at(self, at_ms: int, action: Callable[[], None], *, is_traffic: bool = False) -> None:
        """Schedule an action; `is_traffic`: `settle` waits for it."""
        self._planned += 1
        self._traffic += is_traffic
        heappush(self._agenda, (at_ms, self._planned, is_traffic, action))

    def run_until(self, end_ms: int) -> None:
        """Execute everything that is scheduled up to `end_ms`, which becomes the current time."""
        while self._agenda and self._agenda[0][0] <= end_ms:
            self._next()
        self.now_ms = max(self.now_ms, end_ms)

    def settle(self, quiet_ms: int = 0) -> None:
        """Continue until nothing is in transit and no node has anything to do for `quiet_ms`."""
        while self._agenda and (self._traffic or self._agenda[0][0] <= self.now_ms + quiet_ms):
            self._next()

    def _next(self) -> None:
        at_ms, _, is_traffic, action = heappop(self._agenda)
        self._traffic -= is_traffic
        self._still = 0 if at_ms > self.now_ms else self._still + 1
        if self._still > _STILL_MAX:
            raise InvariantError("the time does not go on")
        self.now_ms = max(self.now_ms, at_ms)
        action()

    def tick_all(self) -> None:
        """Tick every node, whether it is due or not."""
        for name, node in self.nodes.items():
            node.tick(self.now_ms)
            self.stepped(name)

    def _between(self, times: tuple[int, int]) -> int:
        low, high = times
        return self.now_ms + (low if low == high else self.rng.randint(low, high))

    # Nodes.

    def stepped(self, name: str) -> None:
        """Schedule a node's sending and its next tick, after it was called."""
        if name not in self._sending:
            self._sending.add(name)
            self.at(self._between(self.faults.pace_ms), lambda: self._send(name), is_traffic=True)
        self._plan_tick(name)

    def _send(self, name: str) -> None:
        self._sending.discard(name)
        if (node := self.nodes.get(name)) is None:
            return
        sent = False
        for receiver, data in node.outgoing(self.now_ms):
            sent = True
            if receiver is None:
                self.broadcast(name, data)
            else:
                self._write(name, receiver, data)
        if sent:
            self.stepped(name)
        self._plan_tick(name)

    def _plan_tick(self, name: str) -> None:
        due_ms = self.nodes[name].next_due_ms() if name in self.nodes else None
        planned_ms = self._ticks.get(name)
        if due_ms is not None and (planned_ms is None or due_ms < planned_ms):
            self._ticks[name] = due_ms
            self.at(max(due_ms, self.now_ms), lambda: self._tick(name, due_ms))

    def _tick(self, name: str, planned_ms: int) -> None:
        if self._ticks.get(name) != planned_ms or name not in self.nodes:
            return
        del self._ticks[name]
        due_ms = self.nodes[name].next_due_ms()
        if due_ms is not None and due_ms <= self.now_ms:
            self.nodes[name].tick(self.now_ms)
            self.stepped(name)
        else:
            self._plan_tick(name)

    def _deliver(self, receiver: str, sender: str, data: bytes) -> None:
        if receiver in self.nodes:
            self.nodes[receiver].deliver(sender, data, self.now_ms)
            self.stepped(receiver)

    # Broadcasts.

    def split(self) -> None:
        """Split the network into two parts; messages do not pass between them."""
        self._sides = {name: self.rng.randrange(2) for name in self.nodes}
        self.note(f"split {self._sides}")

    def heal(self) -> None:
        """Join all parts of the network."""
        self._sides = {}

    def broadcast(self, sender: str, data: bytes) -> None:
        """Broadcast a message from a node, or from outside."""
        side, faults = self._sides.get(sender, 0), self.faults
        heard = [
            name
            for name in self.nodes
            if self._sides.get(name, 0) == side
            and (name != sender or (faults.echo and self.rng.random() < faults.echo))
        ]
        if faults.delay_ms[0] < faults.delay_ms[1]:
            for name in heard:
                self.carry(name, sender, data)
            return
        # One event for all receivers: there may be thousands.
        arriving = [name for name in heard for _ in range(self._copies())]

        def arrive() -> None:
            for name in arriving:
                self._deliver(name, sender, data)

        self.at(self._between(faults.delay_ms), arrive, is_traffic=True)

    def carry(self, receiver: str, sender: str, data: bytes) -> None:
        """Send a message to one node."""
        for _ in range(self._copies()):
            at_ms = self._between(self.faults.delay_ms)
            self.at(at_ms, lambda: self._deliver(receiver, sender, data), is_traffic=True)

    def _copies(self) -> int:
        loss, repetition = self.faults.loss, self.faults.repetition
        if loss and self.rng.random() < loss:
            return 0
        return 1 + bool(repetition and self.rng.random() < repetition)

    # Links.

    def add_link(self, dialler: str, listener: str) -> SimulatedLink:
        """Add a link that is down."""
        self.links.append(SimulatedLink(dialler, listener))
        return self.links[-1]

    def link(self, first: str, second: str) -> SimulatedLink | None:
        """Return the link between two nodes."""
        return next((link for link in self.links if {first, second} == set(link.ends)), None)

    def any_link(self, *, up: bool) -> SimulatedLink | None:
        """Return a random link that is up, or down; None without one."""
        fitting = [link for link in self.links if link.is_up is up]
        return self.rng.choice(fitting) if fitting else None

    def connect(self, link: SimulatedLink) -> None:
        """Bring a link up at both ends."""
        self.note(f"{link.ends} connected")
        link.is_up, link.pipes = True, {}
        for end in link.ends:
            self.nodes[end].connected(link.other_end(end), self.now_ms, dialled=end == link.dialler)
            self.stepped(end)

    def cut(self, link: SimulatedLink) -> None:
        """Break a link at both ends; data in transit is lost."""
        self.note(f"{link.ends} cut")
        link.is_up, link.pipes = False, {}
        for end in link.ends:
            if end in self.nodes:
                self.nodes[end].disconnected(link.other_end(end), self.now_ms)
                self.stepped(end)

    def cut_off(self, name: str) -> None:
        """Break all links of a node."""
        for link in self.links:
            if link.is_up and name in link.ends:
                self.cut(link)

    def _write(self, sender: str, receiver: str, data: bytes) -> None:
        name, _, lane = receiver.partition("/")
        link = self.link(sender, name)
        if link is None or not link.is_up:
            return
        pipe = link.pipes.setdefault((name, lane), bytearray())
        if not pipe:
            self._plan_piece(link, pipe, name, lane)
        pipe += data
        if not data:
            self._plan_end(link, link.pipes, name)

    def _plan_piece(self, link: SimulatedLink, pipe: bytearray, receiver: str, lane: str) -> None:
        def arrive() -> None:
            if link.pipes.get((receiver, lane)) is not pipe or not pipe:
                return
            size = self.rng.choice(self.faults.piece_bytes)
            data = bytes(pipe[:size])
            del pipe[:size]
            if pipe:
                self._plan_piece(link, pipe, receiver, lane)
            sender = link.other_end(receiver)
            self._deliver(receiver, f"{sender}/{lane}" if lane else sender, data)

        self.at(self._between(self.faults.delay_ms), arrive, is_traffic=True)

    def _plan_end(self, link: SimulatedLink, pipes: dict[tuple[str, str], bytearray], receiver: str) -> None:
        def end() -> None:
            if link.pipes is not pipes:
                return
            if any(pipe for (name, _), pipe in pipes.items() if name == receiver):
                self._plan_end(link, pipes, receiver)
            else:
                self.cut(link)

        self.at(self._between(self.faults.delay_ms), end, is_traffic=True)


class Simulation(Network[Node], ABC):
    """One run with one seed: faults, the calm after them, and the final checks."""

    @abstractmethod
    def disturb(self) -> None:
        """Run the part with faults."""

    @abstractmethod
    def calm_down(self) -> None:
        """Run the part without faults."""

    @abstractmethod
    def check(self) -> None:
        """Check what must hold in the end. Raises `InvariantError`."""

    def run(self) -> Self:
        """Run all parts. Raises `SimulationError`."""
        try:
            self.disturb()
            self.note("calm")
            self.calm_down()
            self.check()
        except Exception as error:
            steps = "\n  ".join(self.trace)
            raise SimulationError(
                f"seed {self.seed}: {type(error).__name__}: {error}\n  {steps}\n"
                f"replay with CULM_SIM_SEED={self.seed}"
            ) from error
        return self
