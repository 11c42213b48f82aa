"""Records for operators: holdings, sources and their owners, and sessions (reference 9.1, 10.11)."""

from typing import Annotated, Final, Literal, NamedTuple

from culm_models.chotki.sync.progress import Progress
from culm_topics.chotki.records.shape import ShortText, Vector
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import counted, rule, sized

SourceState = Literal["allocated", "retired"]


TRACE_SIZE: Final = 10
MAX_OPEN_SYNCS: Final = 1_024


class Behind(NamedTuple):
    """A source in which a peer is behind: its edge's progress, and since when the peer is behind."""

    src: int
    pro: int
    since_ms: int


@record(
    "chotki.vectors",
    "a version vector. Key: the global vector's store key (of the deployment), or a source, u64 (of a peer).",
)
class VectorRecord(Record):
    """The holdings of the deployment (as of `epoch`) or of a peer (`epoch` 0), at `time_ms`.

    `behind` lists, by source, what a peer is missing of its edge's holdings; it is empty for the deployment.
    """

    vector: Vector
    epoch: Annotated[int, "0: of a peer"]
    time_ms: int
    behind: Annotated[tuple[Behind, ...], "sources of which the peer is missing changes, and since when"] = ()


@record("chotki.sources", "the owner of a source. Key: the source, u64.")
class SourceRecord(Record):
    """Owner of a source: a name, its present run (16 bytes, drawn at its start), and since when.

    A retired source stays in vectors, and is never assigned again.
    """

    owner: ShortText
    run: Annotated[bytes, sized(16), "random for each start"]
    state: Annotated[SourceState, rule("source-state")]
    since_ms: int


_Trace = Annotated[bytes, sized(0, TRACE_SIZE), rule("trace")]
_Diff = Annotated[Progress, rule("diff", "of the first diff; a total of 0: unknown")]


class OpenSyncItem(NamedTuple):
    """A sync whose V has not arrived: its T (`src`, `pro`), its age, and the bytes of its D's so far."""

    src: int
    pro: int
    age_ms: int
    bytes: int


@record("chotki.sessions", "a session with a peer. Key: edge (32 bytes) and session, u64.")
class SessionRecord(Record):
    """A session at `time_ms`, in the states of the specification.

    `peer` is the peer's source (0 before its handshake), `address` its address; `mode` the mode bits (0 to 7)
    that both sides' handshakes share. `bytes_in` and `bytes_out` are those of the transport. `received` and
    `sent` are the diffs at the session's beginning, `pings` and `pongs` the numbers received. `code` is that
    of the refusal that ended it, or of a reported warning, or "".
    """

    state: Annotated[ShortText, "a state of the specification"]
    peer: Annotated[int, "the peer's source; 0: not known yet"]
    address: ShortText
    mode: int
    trace: _Trace
    peer_trace: _Trace
    bytes_in: Annotated[int, "of the transport connection"]
    bytes_out: int
    received: _Diff
    sent: _Diff
    open_syncs: Annotated[tuple[OpenSyncItem, ...], counted(MAX_OPEN_SYNCS)]
    pings: Annotated[int, "received"]
    pongs: int
    reason: ShortText
    code: Annotated[ShortText, "code of a refusal or a warning"]
    time_ms: int
