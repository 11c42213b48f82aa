"""`chotki.sessions`: how a session with a peer stands (reference 9.1, 10.11)."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.records.shape import item_text_size
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    dump,
    head_size,
    load_array,
    refuse_item,
    uint_size,
)

TRACE_SIZE: Final = 10
MAX_OPEN_SYNCS: Final = 1_024
_SESSIONS: Final = "chotki.sessions"


class OpenSyncItem(NamedTuple):
    """A sync whose V has not come: its T (`src`, `pro`), how long it is open, the bytes of its D's so far."""

    src: int
    pro: int
    age_ms: int
    bytes: int


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session as it stands at `time_ms`, in the states of the specification.

    `peer` is the peer's source (0 before its handshake), `address` where it is; `mode` the bits of both
    sides' handshakes that hold (0 to 7). `bytes_in` and `bytes_out` are of the transport. `received` and
    `sent` are the diffs of the session's beginning, `pings` and `pongs` those that came. `code` is that of
    the refusal that ended it, or of the warning that is told; "" for none.
    """

    state: str
    peer: int
    address: str
    mode: int
    trace: bytes
    peer_trace: bytes
    bytes_in: int
    bytes_out: int
    received: Progress
    sent: Progress
    open_syncs: tuple[OpenSyncItem, ...]
    pings: int
    pongs: int
    reason: str
    code: str
    time_ms: int

    def encode(self) -> bytes:
        """`[1, state, peer, address, mode, trace, peer_trace, bytes_in, bytes_out, received, sent, ...]`."""
        return dump(
            FORMAT,
            self.state,
            self.peer,
            self.address,
            self.mode,
            self.trace,
            self.peer_trace,
            self.bytes_in,
            self.bytes_out,
            self.received,
            self.sent,
            self.open_syncs,
            self.pings,
            self.pongs,
            self.reason,
            self.code,
            self.time_ms,
        )

    @staticmethod
    def decode(value: bytes | None) -> "SessionRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        items = load_array(value, _SESSIONS, 17)[1:]
        (state, peer, address, mode, trace, peer_trace, taken, gone) = items[:8]
        (received, sent, syncs, pings, pongs, reason, code, time_ms) = items[8:]
        texts = (("state", state), ("address", address), ("reason", reason), ("code", code))
        numbers = (peer, mode, taken, gone, pings, pongs, time_ms)
        for name, one in (("trace", trace), ("peer_trace", peer_trace)):
            if type(one) is not bytes or len(one) not in (0, TRACE_SIZE):
                refuse_item(_SESSIONS, name, one, f"{TRACE_SIZE} bytes, or none")
        if type(syncs) is not list or len(syncs) > MAX_OPEN_SYNCS:
            refuse_item(_SESSIONS, "open_syncs", syncs, f"a list of at most {MAX_OPEN_SYNCS} syncs")
        size = 2 + head_size(len(syncs))
        size += sum(item_text_size(_SESSIONS, name, one) for name, one in texts)
        size += sum(uint_size(_SESSIONS, "a number", one) for one in numbers)
        size += bytes_size(_SESSIONS, "trace", trace) + bytes_size(_SESSIONS, "peer_trace", peer_trace)
        size += sum(_four_size("a diff's progress", one) for one in (received, sent))
        size += sum(_four_size("an open sync", one) for one in syncs)
        check_size(value, size, _SESSIONS)
        items[8:11] = Progress(*received), Progress(*sent), tuple(OpenSyncItem(*one) for one in syncs)
        return SessionRecord(*items)


def _four_size(name: str, item: object) -> int:
    """A list of four unsigned integers."""
    if type(item) is not list or len(item) != len(Progress._fields):
        refuse_item(_SESSIONS, name, item, "four numbers")
    return 1 + sum(uint_size(_SESSIONS, name, one) for one in item)
