"""Certificate pools: entries that prove another without the rest of its log (Bamboo, "certificate pools").

The lower pool of n leads from n to entry 1 by lipmaa links only. The upper pool leads from the spine number
at or above n down to n by greedy descent: the lipmaa link if it does not lead below n, else the backlink.
This descent is the only shortest path between two entries. Pools of 64-bit numbers have about a hundred
elements.
"""

from culm_models.bamboo.entry import lipmaa, spine_number_from

MAX_SEQ_NUM = 2**64 - 1


def lower_pool(seq_num: int) -> list[int]:
    """Return the lower pool of `seq_num`, from `seq_num` down to 1."""
    pool = [seq_num]
    while pool[-1] > 1:
        pool.append(lipmaa(pool[-1]))
    return pool


def upper_pool(seq_num: int) -> list[int]:
    """Return the upper pool of `seq_num`, ascending, without numbers above `MAX_SEQ_NUM`."""
    return [number for number in shortest_path(seq_num, spine_number_from(seq_num)) if number <= MAX_SEQ_NUM]


def shortest_path(start: int, end: int) -> list[int]:
    """Return the shortest path of links between two entries, ascending: the entries of a sparse range.

    `end` must not be below `start`.
    """
    assert 1 <= start <= end, f"a path leads upwards, not from {start} to {end}"
    path = [end]
    while path[-1] > start:
        target = lipmaa(path[-1])
        path.append(target if target >= start else path[-1] - 1)
    path.reverse()
    return path


def in_lower_pool(number: int, seq_num: int) -> bool:
    """Whether `number` is in the lower pool of `seq_num`."""
    while seq_num > number:
        seq_num = lipmaa(seq_num)
    return seq_num == number and number > 0
