"""One real end, and another that says whatever a test wants."""

from __future__ import annotations

from collections.abc import Iterable

from culm_models.bamboo.hashes import YAMF, HashFlavour
from culm_models.bamboo_p2p.connection import BambooConnection
from culm_models.bamboo_p2p.memory_store import MemoryBambooStore
from culm_models.bamboo_p2p.peer import NewEntry, Peer
from culm_models.bamboo_p2p.requests.proposals import RequestedRange
from culm_models.bamboo_p2p.settings import BambooSettings
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup, encode_control, encode_setup
from culm_models.bamboo_p2p.wire.data import encode_data
from culm_models.bamboo_p2p.wire.messages import (
    MAX_SIZE,
    ControlMessage,
    DataMessage,
    Eagerness,
    Propose,
    Setup,
)
from tests.models.bamboo_p2p.logs import LOG


class HandMade:
    """The other end gives even ids unless the real one `is_proactive`; its setup is sent at once."""

    def __init__(
        self,
        entries: Iterable[NewEntry] = (),
        settings: BambooSettings | None = None,
        *,
        is_proactive: bool = False,
        setup: Setup | None = None,
        flavour: HashFlavour = YAMF,
    ) -> None:
        self.flavour = flavour
        self.settings = settings or BambooSettings()
        self.held = tuple(entries)
        self.is_proactive = is_proactive
        self.said: list[tuple[str, bytes]] = []
        self.asked: tuple[int, RequestedRange] | None = None
        """What the real end was made to propose, and how many times the other one had spoken before."""
        self.store = MemoryBambooStore(flavour)
        self.peer = Peer(self.store, self.settings)
        self.peer.add(self.held)
        self.end: BambooConnection = self.peer.connect("hand-made", is_proactive=is_proactive, now_ms=0)
        first = self.end.take_control()
        decoded = decode_setup(first)
        assert decoded is not None
        self._control_out = bytearray(first[decoded[1] :])
        self.control_bytes(encode_setup(setup or Setup(False, False, 65_536, 65_536)))

    def control_bytes(self, data: bytes, now_ms: int = 0) -> HandMade:
        """Say bytes on the control channel."""
        self.said.append(("control", data))
        self.end.receive_control(data, now_ms)
        self.peer.settle()
        return self

    def data_bytes(self, data: bytes, now_ms: int = 0) -> HandMade:
        """Say bytes on the data channel."""
        self.said.append(("data", data))
        self.end.receive_all_data(data, now_ms)
        self.peer.settle()
        return self

    def data_turn(self, data: bytes = b"") -> HandMade:
        """Say bytes on the data channel, of which one turn is read."""
        self.end.receive_data(data, 0)
        self.peer.settle()
        return self

    def propose(self, wanted: RequestedRange) -> HandMade:
        """Have the real end propose a request."""
        self.asked = len(self.said), wanted
        self.end.propose(wanted)
        return self

    def control(self, *messages: ControlMessage) -> HandMade:
        """Say control messages."""
        return self.control_bytes(b"".join(map(encode_control, messages)))

    def data(self, *messages: DataMessage | bytes) -> HandMade:
        """Say data messages; bytes are what follows a payload's head."""
        return self.data_bytes(
            b"".join(message if isinstance(message, bytes) else encode_data(message) for message in messages)
        )

    def heard(self) -> list[ControlMessage]:
        """What the real end said on the control channel since the last call."""
        self._control_out += self.end.take_control()
        messages, at = [], 0
        while (decoded := decode_control(self._control_out, at, self.flavour)) is not None:
            messages.append(decoded[0])
            at = decoded[1]
        del self._control_out[:at]
        return messages

    def heard_data(self) -> bytes:
        """What the real end has to say on the data channel."""
        sent = b""
        while turn := self.end.next_data():
            sent += turn
        return sent

    @property
    def code(self) -> str | None:
        """With which code the real end dropped the connection."""
        return self.end.dropped.code if self.end.dropped is not None else None


def proposal(
    request_id: int = 0,
    start: int = 1,
    *,
    lower: int | None = 1,
    end: int | None = None,
    upper: int | None = None,
    expected_hash: bytes | None = None,
    eagerness: Eagerness = Eagerness.ALL,
    threshold: int | None = None,
    offset: int | None = None,
    min_size: int = 0,
    max_size: int = MAX_SIZE,
    payload_only: bool = False,
    sparse: bool = False,
    mandatory: bool = False,
) -> Propose:
    """A proposal for the log of `logs`."""
    return Propose(
        request_id,
        *LOG,
        start,
        lower if offset is None else None,
        min_size,
        max_size,
        expected_hash,
        eagerness,
        threshold,
        end,
        upper if upper is not None else end,
        offset,
        payload_only,
        sparse,
        mandatory,
    )
