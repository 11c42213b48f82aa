"""What a connection reports to whoever drives it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.messages import AckStatus


@dataclass(frozen=True, slots=True)
class HelloReceived:
    """The other end has said who it is; its verdicts are its own, so another policy refuses nobody."""

    spaces: tuple[bytes, ...]
    policy: str
    verdict: bytes


@dataclass(frozen=True, slots=True)
class NodesReceived:
    """Nodes and UCANs that were asked for or offered: their hashes are right, all else is to be judged.

    A child may come before its parents. `Exchange.settle` is owed for each of them.
    """

    space: bytes
    blocks: tuple[tuple[Cid, bytes], ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TokenReceived:
    """A UCAN that nobody asked for, whose issuer is the other end's key (R14); it is to be verified.

    What follows is looked at when `Exchange.access_changed` is called, which is owed.
    """

    space: bytes
    cid: Cid
    block: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ShardSpooled:
    """All chunks of a shard are in the store's spool, unverified. `Exchange.settle` is owed for it."""

    space: bytes
    shard: Cid
    size: int


@dataclass(frozen=True, slots=True)
class DagAcknowledged:
    """What the other end says became of something that it was sent, was offered, or was asked for."""

    space: bytes
    link: Cid
    status: AckStatus
    code: str | None


@dataclass(frozen=True, slots=True)
class DoneReceived:
    """All that the other end wants of a space has come to it, for now."""

    space: bytes
    dag_heads: tuple[Cid, ...]
    tip: Cid | None


ExchangeEvent: TypeAlias = (
    HelloReceived | NodesReceived | TokenReceived | ShardSpooled | DagAcknowledged | DoneReceived
)
