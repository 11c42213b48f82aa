"""Settings of one end: the content of its HELLO, and limits on what it stores for the other end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeAlias, TypeVar

from culm_models.dag.blocks.multihash import DEFAULT_HASHES
from culm_models.dag.wire.messages import FRAME_MAX


class SpaceAbility(StrEnum):
    """A right in a space (R14)."""

    APPEND = "dag/append"
    READ = "dag/read"


SpaceAccess: TypeAlias = Callable[[bytes, SpaceAbility], str | None]
"""Checks a right of the other end in a space. Returns None, or the code with which it is refused."""


def open_to_all(space: bytes, ability: SpaceAbility) -> str | None:
    """Grant every right."""
    return None


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """Settings of one end of a connection.

    Data from the other end beyond a limit is ignored, not an error.
    """

    policy: str
    verdict: bytes
    """The sha2-256 of the record of validation rules (R28)."""
    spaces: tuple[bytes, ...] = ()
    """Spaces named in HELLO. Spaces that only the other end names are exchanged, too, if access allows it."""
    legacy: bool = False
    hashes: frozenset[int] = DEFAULT_HASHES
    """Hash functions of the validation rules. Shards with another hash function cannot be verified."""
    max_frame: int = FRAME_MAX
    takes_shards: bool = True
    """If false, only nodes are requested."""
    spaces_max: int = 4_096
    """Limit of the spaces accepted from the other end's HELLO."""
    wants_in_flight: int = 256
    """Limit of nodes and shards that are requested and have not arrived, in each direction."""
    wanted_bytes: int = 67_108_864
    """Limit of the bytes of shards that are requested and have not arrived. One shard is always allowed."""
    nodes_known_of: int = 10_000
    """Limit of nodes that wait to be requested or to arrive, in all spaces together."""
    shards_known_of: int = 65_536
    """Limit of offered shards that have not arrived, in all spaces together."""
    unasked_bytes: int = 67_108_864
    """Limit of unsolicited bytes, such as those after a CANCEL. They are dropped; more end the connection."""
    tokens: int = 16
    """Limit of UCANs issued by its own key that the other end may send without a request."""


_T = TypeVar("_T")


class RecentSet(Generic[_T]):
    """Set of the last `max_items` items that were added."""

    __slots__ = ("_items", "_max_items")

    def __init__(self, max_items: int) -> None:
        self._max_items = max_items
        self._items: OrderedDict[_T, None] = OrderedDict()

    def add(self, item: _T) -> None:
        """Add an item. Removes the oldest item if the set is full."""
        self._items[item] = None
        if len(self._items) > self._max_items:
            self._items.popitem(last=False)

    def discard(self, item: _T) -> None:
        """Remove an item if it is in the set."""
        self._items.pop(item, None)

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __len__(self) -> int:
        return len(self._items)
