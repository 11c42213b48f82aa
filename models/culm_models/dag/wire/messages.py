"""The eight message types (reference 6). Lists keep the order in which they were sent."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final, TypeAlias

from culm_models.dag.blocks.cid import Cid

VERSION: Final = 1
FRAME_MAX: Final = 1_000_000
FRAME_LEAST: Final = 1_000
SPACE_SIZE: Final = 32
VERDICT_SIZE: Final = 32
CHUNK_SIZE: Final = 917_504
SHARD_SIZE_MAX: Final = 134_217_728
POLICIES: Final = ("bound", "bearer")


class AckStatus(IntEnum):
    """The result for a link that was sent, offered or requested."""

    DURABLE = 0
    HAD = 1
    REFUSED = 2
    NOT_HERE = 3
    LATER = 4


@dataclass(frozen=True, slots=True)
class DagHello:
    """The first message of each end."""

    max_frame: int
    spaces: tuple[bytes, ...]
    policy: str
    verdict: bytes
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class DagOffer:
    """The heads and shards of a space that the sender holds. Several offers add up."""

    space: bytes
    dag_heads: tuple[Cid, ...]
    publish_heads: tuple[Cid, ...]
    shards: tuple[tuple[Cid, int], ...]


@dataclass(frozen=True, slots=True)
class DagWant:
    """A request for nodes and for ranges of shards. An empty list of ranges means the whole shard."""

    space: bytes
    nodes: tuple[Cid, ...]
    shards: tuple[tuple[Cid, tuple[tuple[int, int], ...]], ...]


@dataclass(frozen=True, slots=True)
class DagCancel:
    """A cancellation of requests."""

    space: bytes
    links: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class DagBlocks:
    """Blocks of nodes and UCANs; the receiver computes their CIDs."""

    space: bytes
    blocks: tuple[bytes, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class DagChunk:
    """A chunk of a shard (R27)."""

    space: bytes
    shard: Cid
    size: int
    offset: int
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class DagAck:
    """The results for links. A REFUSED link has a code, a LATER link may have one."""

    space: bytes
    results: tuple[tuple[Cid, int, str | None], ...]


@dataclass(frozen=True, slots=True)
class DagDone:
    """The sender has received everything that it requested."""

    space: bytes
    dag_heads: tuple[Cid, ...]
    tip: Cid | None


DagMessage: TypeAlias = DagHello | DagOffer | DagWant | DagCancel | DagBlocks | DagChunk | DagAck | DagDone
