"""Replica nodes as their fields say it (reference 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.ucan.token import Ucan


@dataclass(frozen=True, slots=True)
class AppendChange:
    """More shards."""

    shards: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class JoinChange:
    """All that the forks have, beside the prior."""

    forks: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class PublishChange:
    """A state of a DAG, with its root, under an id."""

    id: bytes
    """The Ed25519 public key."""
    link: Cid
    origin: Cid
    shard: Cid | None
    proof: Ucan
    """Its form is checked, its signature is not."""


Change: TypeAlias = AppendChange | JoinChange | PublishChange


@dataclass(frozen=True, slots=True)
class ReplicaNode:
    """One node: its change to a prior state. Its identity is its bytes."""

    cid: Cid
    prior: Cid | None
    change: Change
    data: bytes = field(repr=False)

    @property
    def parents(self) -> tuple[Cid, ...]:
        """Prior and forks."""
        priors = () if self.prior is None else (self.prior,)
        return priors + self.change.forks if isinstance(self.change, JoinChange) else priors

    @property
    def shards(self) -> tuple[Cid, ...]:
        """The shards that this node adds by itself."""
        return self.change.shards if isinstance(self.change, AppendChange) else ()

    @property
    def is_publish(self) -> bool:
        """Whether the node stands in a chain of publishes."""
        return isinstance(self.change, PublishChange)
