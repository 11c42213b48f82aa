"""`chotki.vectors` and `chotki.sources`: who holds what, and whose each source is (reference 9.1)."""

from typing import Annotated, Literal, NamedTuple

from culm_topics.chotki.records.shape import ShortText, Vector
from culm_topics.records.declare import Record, record
from culm_topics.records.kinds import rule, sized

SourceState = Literal["allocated", "retired"]


class Behind(NamedTuple):
    """A source of which a peer lacks something: how far its edge has it, and since when the peer lacks it."""

    src: int
    pro: int
    since_ms: int


@record(
    "chotki.vectors",
    "what is held. Key: the global vector's store key: the deployment; a source, u64: a peer.",
)
class HoldingRecord(Record):
    """What the deployment holds (`epoch` says as of when), or a peer does (`epoch` 0), at `time_ms`.

    `behind` is what a peer lacks of what its edge holds, by source; nothing of the deployment.
    """

    vector: Vector
    epoch: Annotated[int, "0: of a peer"]
    time_ms: int
    behind: Annotated[tuple[Behind, ...], "what a peer lacks of this, and since when"] = ()


@record("chotki.sources", "whose a source is. Key: the source, u64.")
class SourceRecord(Record):
    """Whose a source is: a name, its present run (16 bytes, drawn at its start), and since when.

    A retired source stays in vectors, and is never given again.
    """

    owner: ShortText
    run: Annotated[bytes, sized(16), "drawn at each start"]
    state: Annotated[SourceState, rule("source-state")]
    since_ms: int
