"""Replica nodes as decoded fields (reference 3.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.ucan.token import Ucan


@dataclass(frozen=True, slots=True)
class AppendChange:
    """A change that adds shards."""

    shards: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class JoinChange:
    """A change that merges the states of the forks into that of the prior."""

    forks: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class PublishChange:
    """A change that publishes a root of a DAG, and the state that holds it, under an id."""

    id: bytes
    """An Ed25519 public key of 32 bytes."""
    link: Cid
    origin: Cid
    shard: Cid | None
    proof: Ucan
    """The UCAN that authorises the publish. Its form is checked, its signature is not."""


Change: TypeAlias = AppendChange | JoinChange | PublishChange


@dataclass(frozen=True, slots=True)
class ReplicaNode:
    """A node: a change to a prior state, identified by its bytes."""

    cid: Cid
    prior: Cid | None
    change: Change
    data: bytes = field(repr=False)

    @property
    def parents(self) -> tuple[Cid, ...]:
        """The prior and the forks."""
        priors = () if self.prior is None else (self.prior,)
        return priors + self.change.forks if isinstance(self.change, JoinChange) else priors

    @property
    def shards(self) -> tuple[Cid, ...]:
        """The shards that this node itself adds."""
        return self.change.shards if isinstance(self.change, AppendChange) else ()

    @property
    def is_publish(self) -> bool:
        """Whether the node is a publish."""
        return isinstance(self.change, PublishChange)
