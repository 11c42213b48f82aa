"""`chotki.vectors` and `chotki.sources`: who holds what, and whose each source is (reference 9.1)."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from culm_topics.chotki.records.shape import item_text_size, vector_size
from culm_topics.records.shape import (
    FORMAT,
    bytes_size,
    check_size,
    dump,
    head_size,
    load_array,
    refuse_item,
    text_size,
    uint_size,
)

SourceState = Literal["allocated", "retired"]
SOURCE_STATES: tuple[SourceState, ...] = get_args(SourceState)
_VECTORS = "chotki.vectors"
_SOURCES = "chotki.sources"


class Behind(NamedTuple):
    """A source of which a peer lacks something: how far its edge has it, and since when the peer lacks it."""

    src: int
    pro: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class HoldingRecord:
    """What the deployment holds (`epoch` says as of when), or a peer does (`epoch` 0), at `time_ms`.

    `behind` is what a peer lacks of what its edge holds, by source; nothing of the deployment.
    """

    vector: bytes
    epoch: int
    time_ms: int
    behind: tuple[Behind, ...] = ()

    def encode(self) -> bytes:
        """`[1, vector, epoch, time_ms, [[src, pro, since_ms], ...]]`."""
        return dump(FORMAT, self.vector, self.epoch, self.time_ms, self.behind)

    @staticmethod
    def decode(value: bytes | None) -> "HoldingRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, vector, epoch, time_ms, behind = load_array(value, _VECTORS, 5)
        size = (
            2
            + vector_size(_VECTORS, "vector", vector)
            + uint_size(_VECTORS, "epoch", epoch)
            + uint_size(_VECTORS, "time_ms", time_ms)
            + _behind_size(behind)
        )
        check_size(value, size, _VECTORS)
        return HoldingRecord(vector, epoch, time_ms, tuple(Behind(*one) for one in behind))


def _behind_size(items: object) -> int:
    """A list of what `Behind` has."""
    if type(items) is not list:
        refuse_item(_VECTORS, "behind", items, "a list")
    size = head_size(len(items))
    for one in items:
        if type(one) is not list or len(one) != len(Behind._fields):
            refuse_item(_VECTORS, "behind", one, "a source, how far it is, and since when")
        size += 1 + sum(uint_size(_VECTORS, "behind", number) for number in one)
    return size


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
