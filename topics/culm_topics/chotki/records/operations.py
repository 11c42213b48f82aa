"""`chotki.vectors`, `chotki.sessions` and `chotki.sources`: what operators look at (reference 9.1)."""

from dataclasses import dataclass
from typing import Literal, get_args

from culm_topics.chotki.records.shape import bytes_size, item_text_size, uint_size, vector_size
from culm_topics.records.shape import FORMAT, check_size, dump, load_array, refuse_item, text_size

SourceState = Literal["allocated", "retired"]
SOURCE_STATES: tuple[SourceState, ...] = get_args(SourceState)
TRACE_SIZE = 10
_VECTORS = "chotki.vectors"
_SESSIONS = "chotki.sessions"
_SOURCES = "chotki.sources"


@dataclass(frozen=True, slots=True)
class HoldingRecord:
    """What the deployment holds (`epoch` says as of when), or a peer does (`epoch` 0), at `time_ms`."""

    vector: bytes
    epoch: int
    time_ms: int

    def encode(self) -> bytes:
        """`[1, vector, epoch, time_ms]`."""
        return dump(FORMAT, self.vector, self.epoch, self.time_ms)

    @staticmethod
    def decode(value: bytes | None) -> "HoldingRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, vector, epoch, time_ms = load_array(value, _VECTORS, 4)
        size = (
            2
            + vector_size(_VECTORS, "vector", vector)
            + uint_size(_VECTORS, "epoch", epoch)
            + uint_size(_VECTORS, "time_ms", time_ms)
        )
        check_size(value, size, _VECTORS)
        return HoldingRecord(vector, epoch, time_ms)


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it stands at `time_ms`, in the states of the specification.

    `peer` is the peer's source (0 before its handshake), `address` where it is; `mode` the bits of both
    sides' handshakes that hold (0 to 7). Bytes are of the transport. `code` is that of the refusal that ended
    it, or of the warning that is told; "" for none.
    """

    state: str
    peer: int
    address: str
    mode: int
    trace: bytes
    peer_trace: bytes
    blocks: int
    bytes_in: int
    bytes_out: int
    reason: str
    code: str
    time_ms: int

    def encode(self) -> bytes:
        """`[1, state, peer, address, mode, trace, peer_trace, blocks, bytes_in, bytes_out, ...]`."""
        return dump(
            FORMAT,
            self.state,
            self.peer,
            self.address,
            self.mode,
            self.trace,
            self.peer_trace,
            self.blocks,
            self.bytes_in,
            self.bytes_out,
            self.reason,
            self.code,
            self.time_ms,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SessionRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        items = load_array(value, _SESSIONS, 13)[1:]
        state, peer, address, mode, trace, peer_trace, blocks, taken, sent, reason, code, time_ms = items
        texts = (("state", state), ("address", address), ("reason", reason), ("code", code))
        numbers = (peer, mode, blocks, taken, sent, time_ms)
        for name, one in (("trace", trace), ("peer_trace", peer_trace)):
            if type(one) is not bytes or len(one) not in (0, TRACE_SIZE):
                refuse_item(_SESSIONS, name, one, f"{TRACE_SIZE} bytes, or none")
        size = 2 + sum(item_text_size(_SESSIONS, name, one) for name, one in texts)
        size += sum(uint_size(_SESSIONS, "a number", one) for one in numbers)
        size += bytes_size(_SESSIONS, "trace", trace) + bytes_size(_SESSIONS, "peer_trace", peer_trace)
        check_size(value, size, _SESSIONS)
        return SessionRecord(*items)


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """Whose a source is: a name, its present run (16 bytes, drawn at its start), and since when.

    A retired source stays in vectors, and is never given again.
    """

    owner: str
    run: bytes
    state: SourceState
    since_ms: int

    def encode(self) -> bytes:
        """`[1, owner, run, state, since_ms]`."""
        return dump(FORMAT, self.owner, self.run, self.state, self.since_ms)

    @staticmethod
    def decode(value: bytes | None) -> "SourceRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, owner, run, state, since_ms = load_array(value, _SOURCES, 5)
        if state not in SOURCE_STATES:
            refuse_item(_SOURCES, "state", state, " or ".join(SOURCE_STATES))
        size = (
            2
            + item_text_size(_SOURCES, "owner", owner)
            + bytes_size(_SOURCES, "run", run, 16)
            + text_size(state)
            + uint_size(_SOURCES, "since_ms", since_ms)
        )
        check_size(value, size, _SOURCES)
        return SourceRecord(owner, run, state, since_ms)
