"""The held entries that their certificate pools prove, without inspecting every entry of a long log.

Follows Bamboo Point-2-Point, "certificate pools", and `culm_connectors.bamboo_p2p.proof`, which proves one
entry. An element of a pool above all held entries may not exist yet and does not count as missing. An entry
whose link names another entry than the held one is not part of any pool.

The entries of `logs` from entry 1 on are checked as a chain already. The upper pools of these entries leave
the chain on one path, from the spine number above it down to the first entry that the chain is missing: the
first gap on that path determines how far they are whole. So only entries behind gaps are inspected
individually.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NamedTuple

from culm_models.bamboo.certificate_pool import shortest_path
from culm_models.bamboo.entry import lipmaa, spine_number_from
from culm_models.bamboo.range_set import RangeSet

IsThere = Callable[[int], bool]
"""Whether an element of a pool is held and sound, or may not exist yet."""


class EntryLinks(NamedTuple):
    """An entry's hash and links, cut; an absent link is empty."""

    hash: bytes
    backlink: bytes
    skiplink: bytes


def lower_pool(start: int, end: int) -> list[int]:
    """Return the numbers from `start` on that a link from `end` on can name: the lower pool of `end` - 1.

    Links never cross, so numbers that a link of that pool spans are out of reach.
    """
    number = end - 1
    named = []
    while number >= start:
        named.append(number)
        number = _lipmaa(number)
    return named


def provable_entries(
    entries: RangeSet, joined: RangeSet, named: Mapping[int, bytes], fragments: Mapping[int, EntryLinks]
) -> RangeSet:
    """Return the entries whose pools are whole and sound.

    `joined`: the entries in `logs`; `named`: the hashes of those that a later link may name; `fragments`: all
    other entries.
    """
    height = joined.end_of_run(1) - 1
    top = entries.highest or 0
    sound = {number: _is_sound(number, links, named, fragments) for number, links in fragments.items()}

    def is_there(number: int) -> bool:
        return number > top or number in joined or sound.get(number, False)

    proven = RangeSet()
    proven.add(1, _proven_height(height, is_there) + 1)
    downwards: dict[int, bool] = {}
    upwards: dict[int, bool] = {}
    numbers = sorted(fragments)
    for number in reversed(numbers):
        above = _above(number)
        if above is None or above > top:
            upwards[number] = True
        elif above in upwards:
            upwards[number] = sound[above] and upwards[above]
        else:
            upwards[number] = all(map(is_there, shortest_path(above, spine_number_from(above))))
    for number in numbers:
        target = _lipmaa(number)
        downwards[number] = sound[number] and (target <= height or downwards.get(target, False))
        if downwards[number] and upwards[number]:
            proven.add(number, number + 1)
    return proven


def _is_sound(
    number: int, links: EntryLinks, named: Mapping[int, bytes], fragments: Mapping[int, EntryLinks]
) -> bool:
    """Whether no link names another entry than the held one."""
    wanted = ((number - 1, links.backlink), (_lipmaa(number), links.skiplink))
    for target, link in wanted:
        if link:
            other = fragments.get(target)
            target_hash = named.get(target) if other is None else other.hash
            if target_hash is not None and target_hash != link:
                return False
    return True


def _proven_height(height: int, is_there: IsThere) -> int:
    """Return the number up to which the pools of a chain of `height` entries are whole."""
    if not height:
        return 0
    spine = spine_number_from(height)
    if spine == height:
        return height
    proven = _spine_below(height)
    for number in reversed(shortest_path(height + 1, spine)):
        if not is_there(number):
            return proven
        target = _lipmaa(number)
        if target <= height:
            proven = max(proven, target)
    return height


def _spine_below(height: int) -> int:
    return _SPINE[bisect_right(_SPINE, height) - 1]


@lru_cache(maxsize=1 << 17)
def _above(number: int) -> int | None:
    """Return the next element of the upper pool; None at the pool's end."""
    path = shortest_path(number, spine_number_from(number))
    return path[1] if len(path) > 1 else None


_lipmaa = lru_cache(maxsize=1 << 17)(lipmaa)
_SPINE: tuple[int, ...] = tuple((int(3**k) - 1) // 2 for k in range(1, 42))
