"""What one end says of itself in HELLO, and how much it remembers on another's word."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from culm_models.dag.blocks.multihash import DEFAULT_HASHES
from culm_models.dag.wire.messages import FRAME_MAX


class SpaceAbility(StrEnum):
    """What may be done in a space (R14)."""

    APPEND = "dag/append"
    READ = "dag/read"


SpaceAccess: TypeAlias = Callable[[bytes, SpaceAbility], str | None]
"""Judges what the other end wants to do in a space: None, or the code that it is refused with."""


def open_to_all(space: bytes, ability: SpaceAbility) -> str | None:
    """The access that refuses nothing."""
    return None


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """One end of a connection. What the other one says beyond a bound is not remembered, never an error."""

    policy: str
    verdict: bytes
    """sha2-256 of the record of verdict settings (R28)."""
    spaces: tuple[bytes, ...] = ()
    """What HELLO names. Spaces that only the other end names are exchanged as well, where access allows."""
    legacy: bool = False
    hashes: frozenset[int] = DEFAULT_HASHES
    """Of the record of verdict settings: a shard of another hash function cannot be verified."""
    max_frame: int = FRAME_MAX
    takes_shards: bool = True
    """False: nodes alone are asked for."""
    spaces_max: int = 4_096
    """Spaces in one connection."""
    wants_in_flight: int = 256
    """Nodes and shards that are asked for and have not come, on either side."""
    wanted_bytes: int = 67_108_864
    """Bytes of shards that are asked for and have not come; one shard always may be."""
    nodes_known_of: int = 10_000
    """Nodes that are to be asked for, in all spaces."""
    shards_known_of: int = 65_536
    """Offered shards that are not here, in all spaces."""
    unasked_bytes: int = 67_108_864
    """What may come unasked, as after a CANCEL: it is dropped. More than this ends the connection."""
    tokens: int = 16
    """UCANs of the other end's own key that it may show on one connection."""


_T = TypeVar("_T")


class RecentSet(Generic[_T]):
    """The last `most` things that were added."""

    __slots__ = ("_held", "_most")

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: OrderedDict[_T, None] = OrderedDict()

    def add(self, item: _T) -> None:
        """Remember something; the oldest may be forgotten."""
        self._held[item] = None
        if len(self._held) > self._most:
            self._held.popitem(last=False)

    def discard(self, item: _T) -> None:
        """Forget something."""
        self._held.pop(item, None)

    def __contains__(self, item: object) -> bool:
        return item in self._held

    def __len__(self) -> int:
        return len(self._held)
