"""`chotki.sessions`: how a session with a peer stands (reference 9.1, 10.11)."""

from typing import Annotated, Final, NamedTuple

from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.records.shape import ShortText
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import counted, rule, sized

TRACE_SIZE: Final = 10
MAX_OPEN_SYNCS: Final = 1_024

_Trace = Annotated[bytes, sized(0, TRACE_SIZE), rule("trace")]
_Diff = Annotated[Progress, rule("diff", "of the session's beginning; 0 in all: nobody knows")]


class OpenSyncItem(NamedTuple):
    """A sync whose V has not come: its T (`src`, `pro`), how long it is open, the bytes of its D's so far."""

    src: int
    pro: int
    age_ms: int
    bytes: int


@record("chotki.sessions", "a session with a peer. Key: edge (32 bytes) and session, u64.")
class SessionRecord(Record):
    """A session as it stands at `time_ms`, in the states of the specification.

    `peer` is the peer's source (0 before its handshake), `address` where it is; `mode` the bits of both
    sides' handshakes that hold (0 to 7). `bytes_in` and `bytes_out` are of the transport. `received` and
    `sent` are the diffs of the session's beginning, `pings` and `pongs` those that came. `code` is that of
    the refusal that ended it, or of the warning that is told; "" for none.
    """

    state: Annotated[ShortText, "as the specification names them"]
    peer: Annotated[int, "its source; 0: not known yet"]
    address: ShortText
    mode: int
    trace: _Trace
    peer_trace: _Trace
    bytes_in: Annotated[int, "of the transport"]
    bytes_out: int
    received: _Diff
    sent: _Diff
    open_syncs: Annotated[tuple[OpenSyncItem, ...], counted(MAX_OPEN_SYNCS)]
    pings: Annotated[int, "that came"]
    pongs: int
    reason: ShortText
    code: Annotated[ShortText, "of a refusal or a warning"]
    time_ms: int
