"""An end of a simulation: a peer, and its connections, whose two channels are lanes of a link each."""

from __future__ import annotations

import random
from collections.abc import Iterator

from culm_models.bamboo_p2p.connection import Connection
from culm_models.bamboo_p2p.peer import Peer
from culm_models.testing.bamboo_p2p.witness import DataWitness
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import SimulatedNode


class Node(SimulatedNode):
    """One peer. `neighbours` are all nodes by name; `sizes` are of each payload, one for each branch."""

    def __init__(
        self,
        name: str,
        peer: Peer,
        neighbours: dict[str, Node],
        sizes: list[tuple[int, int]],
        rng: random.Random,
    ) -> None:
        super().__init__()
        self.name = name
        self.peer = peer
        self._neighbours = neighbours
        self._sizes = sizes
        self._rng = rng
        self._witnesses: dict[str, DataWitness] = {}

    def deliver(self, sender: str, data: bytes, now_ms: int) -> None:
        """Bytes of a channel."""
        other, _, channel = sender.partition("/")
        if channel == "control":
            self.peer.connections[other].receive_control(data, 0)
        else:
            self.peer.connections[other].receive_all_data(data, 0)

    def outgoing(self, now_ms: int) -> Iterator[tuple[str, bytes]]:
        """All of control, and one turn of data of one connection."""
        self.peer.settle()
        for other, connection in self.peer.connections.items():
            if connection.dropped is not None:
                raise InvariantError(f"a connection was dropped: {connection.dropped!r}")
            if control := connection.take_control():
                yield f"{other}/control", control
        # As drivers do: what is not due is not asked for.
        due = [other for other, connection in self.peer.connections.items() if connection.data_is_due]
        self._rng.shuffle(due)
        for other in due:
            if data := self._make_data(other):
                yield f"{other}/data", data
                break
        for other, connection in self.peer.connections.items():
            if control := connection.take_control():
                yield f"{other}/control", control

    def _make_data(self, other: str) -> bytes:
        connection = self.peer.connections[other]
        data = connection.next_data()
        self._witnesses[other].look(data, connection, self._neighbours[other].connection(self.name))
        return data

    def connection(self, other: str) -> Connection:
        """The connection with another node."""
        return self.peer.connections[other]

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Connect, also in the place of a connection that was lost."""
        self.peer.connect(other, is_proactive=dialled, now_ms=0)
        self._witnesses[other] = DataWitness(self.peer.store.flavour, self._sizes)
