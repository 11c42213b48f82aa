"""Events that a connection reports to its driver."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """The other end's HELLO. Its validation is its own, so a different policy is no reason to refuse it."""

    spaces: tuple[bytes, ...]
    policy: str
    verdict: bytes


@dataclass(frozen=True, slots=True)
class NodesReceived:
    """Requested or offered nodes and UCANs. Their hashes are verified; nothing else is.

    A child may arrive before its parents. The driver must call `Exchange.settle` for each block.
    """

    space: bytes
    blocks: tuple[tuple[Cid, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenReceived:
    """An unsolicited, unverified UCAN whose issuer is the other end's key (R14).

    Further messages wait until the driver calls `Exchange.access_changed`, which it must do.
    """

    space: bytes
    cid: Cid
    block: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShardSpooled:
    """All chunks of a shard are in the store's spool, unverified. The driver must call `Exchange.settle`."""

    space: bytes
    shard: Cid
    size: int


@dataclass(frozen=True, slots=True)
class DagAcknowledged:
    """The other end's result for a link that was sent to it, offered to it or requested from it."""

    space: bytes
    link: Cid
    status: AckStatus
    code: str | None


@dataclass(frozen=True, slots=True)
class DoneReceived:
    """The other end has, for now, received everything that it wants of a space."""

    space: bytes
    dag_heads: tuple[Cid, ...]
    tip: Cid | None


ExchangeEvent: TypeAlias = (
    HelloReceived | NodesReceived | TokenReceived | ShardSpooled | DagAcknowledged | DoneReceived
)
