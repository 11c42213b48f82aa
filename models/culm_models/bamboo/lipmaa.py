"""Which earlier entry a skiplink names (Bamboo, "links and entry verification").

The spine is 1, 4, 13, 40, ...: the numbers (3**k - 1) / 2. The link of a spine number leads to the spine
number before it. Every other number is divided by the spine numbers below it, largest first, keeping the
remainder; the first division that leaves none gives the link's span. Paths along these links are
logarithmic, and where the span is 1 the skiplink would repeat the backlink, so it is left out.
"""

from bisect import bisect_left

# One more than sequence numbers reach: the certificate pools of the largest begin there.
_SPINE: tuple[int, ...] = tuple((int(3**k) - 1) // 2 for k in range(1, 43))
_ON_SPINE = frozenset(_SPINE)


def lipmaa(seq_num: int) -> int:
    """The sequence number that the skiplink of entry `seq_num` names; 0 for the first entry."""
    assert 1 <= seq_num <= _SPINE[-1], f"a sequence number is 1..2**64-1, not {seq_num}"
    position = bisect_left(_SPINE, seq_num)
    if seq_num in _ON_SPINE:
        return _SPINE[position - 1] if position else 0
    remainder = seq_num
    for spine_number in reversed(_SPINE[:position]):
        remainder %= spine_number
        if not remainder:
            return seq_num - spine_number
    raise AssertionError("every number is a multiple of 1")


def spine_number_from(seq_num: int) -> int:
    """The least spine number that is not below `seq_num`; of the largest numbers it is beyond 2**64 - 1."""
    return _SPINE[bisect_left(_SPINE, seq_num)]


def _computed_needs_skiplink(seq_num: int) -> bool:
    return seq_num > 1 and lipmaa(seq_num) != seq_num - 1


# Nearly every log is short, so the answer is nearly always in this table.
_TABLE_SIZE = 2048
_TABLE = bytes(_computed_needs_skiplink(seq_num) for seq_num in range(_TABLE_SIZE))


def needs_skiplink(seq_num: int) -> bool:
    """Whether entry `seq_num` carries a skiplink besides its backlink."""
    if seq_num < _TABLE_SIZE:
        return bool(_TABLE[seq_num])
    return _computed_needs_skiplink(seq_num)
