"""An end of a simulation: a peer and its connections; each connection's two channels are lanes of a link."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.peer import Peer
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.wire.data import decode_data
from culm_models.bamboo_p2p.wire.messages import (
    Apology,
    Cancelled,
    CompressedPayload,
    Metadata,
    RawPayload,
    Switch,
)
from culm_models.testing.errors import InvariantError
from culm_models.testing.simulation import SimulatedNode


class BambooNode(SimulatedNode):
    """One peer. `neighbours` are all nodes by name; `sizes` are of each payload, one for each branch."""

    def __init__(
        self,
        name: str,
        peer: Peer,
        neighbours: dict[str, BambooNode],
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
        """Process bytes of a channel."""
        other, _, channel = sender.partition("/")
        if channel == "control":
            self.peer.connections[other].receive_control(data, 0)
        else:
            self.peer.connections[other].receive_all_data(data, 0)

    def outgoing(self, now_ms: int) -> Iterator[tuple[str, bytes]]:
        """Yield all control data, and one batch of data of one connection."""
        self.peer.settle()
        for other, connection in self.peer.connections.items():
            if connection.dropped is not None:
                raise InvariantError(f"a connection was dropped: {connection.dropped!r}")
            if control := connection.take_control():
                yield f"{other}/control", control
        # Drivers, too, only ask for data that is due.
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

    def connection(self, other: str) -> BambooConnection:
        """Return the connection with another node."""
        return self.peer.connections[other]

    def connected(self, other: str, now_ms: int, *, dialled: bool) -> None:
        """Connect, also in place of a connection that was lost."""
        self.peer.connect(other, is_proactive=dialled, now_ms=0)
        self._witnesses[other] = DataWitness(self.peer.store.flavour, self._sizes)


@dataclass(slots=True)
class _Sent:
    """Amounts sent in one direction of one request."""

    metadata: int = 0
    payload_bytes: int = 0
    apologies: int = 0
    is_over: bool = False


@dataclass(slots=True)
class DataWitness:
    """Check of one direction of one connection.

    `sizes` has the sizes of each entry's payload, one for each branch of the log. The witness knows nothing
    of cursors. For each request, it counts pieces and payload bytes, and compares them with everything that
    the range contains and the settings of its receiver allow. So it detects errors that a receiver would
    tolerate.
    """

    flavour: HashFlavour
    sizes: Sequence[tuple[int, ...]]
    _current: int | None = None
    _sent: dict[int, _Sent] = field(default_factory=dict)

    def look(self, data: bytes, sender: BambooConnection, receiver: BambooConnection) -> None:
        """Check whole messages that the sender just produced. Raises `InvariantError`."""
        at, touched = 0, set[int]()
        while at < len(data):
            after_tag = data[at + 1 : at + 3]
            decoded = decode_data(data, at, self.flavour, lambda: after_tag == self.flavour.prefix)  # noqa: B023
            if decoded is None:
                raise InvariantError("a turn ends inside a message")
            message, at = decoded
            if isinstance(message, Switch):
                self._current = message.id
                continue
            if isinstance(message, Cancelled):
                sent = self._sent.setdefault(message.id, _Sent())
                if sent.is_over:
                    raise InvariantError(f"the data of request {message.id} ended twice")
                sent.is_over = True
                self._current = None if self._current == message.id else self._current
                continue
            if isinstance(message, CompressedPayload):
                at += message.compressed_length
            elif isinstance(message, RawPayload):
                at += message.length
            touched.add(self._count(message))
        for number in touched:
            self._check(number, sender, receiver)

    def _count(self, message: object) -> int:
        number = self._current
        if number is None:
            raise InvariantError("data went out without a request")
        sent = self._sent.setdefault(number, _Sent())
        if sent.is_over:
            raise InvariantError(f"data of request {number} went out behind its end")
        if isinstance(message, Metadata):
            sent.metadata += 1
        elif isinstance(message, RawPayload | CompressedPayload):
            sent.payload_bytes += message.length
        elif isinstance(message, Apology):
            sent.apologies += 1
        return number

    def _check(self, number: int, sender: BambooConnection, receiver: BambooConnection) -> None:
        # The sender knows the confirmation, which fixes the sequence; the receiver knows what it requested.
        fixed, asked = _request(sender, number), _request(receiver, number)
        own, sequence, sent = asked.own, fixed.sequence, self._sent[number]
        if (sent.metadata or sent.payload_bytes) and not own.admits_metadata:
            raise InvariantError(f"data of request {number} was sent although only notifies were requested")
        end = min(sequence.size, 2 * len(self.sizes) + 2)
        pieces = [piece for piece in map(sequence.piece, range(end)) if piece.seq_num <= len(self.sizes)]
        metadata = sum(not piece.is_payload for piece in pieces)
        # Each apology allows one piece to be sent again.
        if sent.metadata > metadata + sent.apologies:
            raise InvariantError(f"request {number} has {metadata} entries, {sent.metadata} went out")
        sizes = (self.sizes[piece.seq_num - 1] for piece in pieces if piece.is_payload)
        admitted = sum(max((size for size in each if own.admits_payload(size)), default=0) for each in sizes)
        if sent.payload_bytes > admitted + sent.apologies * max(map(max, self.sizes)):
            raise InvariantError(f"request {number} asks for {admitted} bytes, more went out")


def _request(connection: BambooConnection, number: int) -> Request:
    for request in connection.requests:
        if request.id == number:
            return request
    raise InvariantError(f"data of request {number} went out, and an end has none of it")
