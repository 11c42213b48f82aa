"""Certificate pools, the few entries that prove one, whichever others are held; the two that prove a fork.

The lower pool of n leads from n to entry 1 by lipmaalinks alone; the upper pool leads from the spine number
at or above n down to n, by the greedy descent: the lipmaalink unless it leads below n, else the backlink.
That descent is the one shortest path between two entries. Pools of 64-bit numbers have some hundred elements.
What a fork is, only Bamboo Point-2-Point of 2020 defines.
"""

from culm_models.bamboo.entry import Entry, lipmaa, spine_number_from

MAX_SEQ_NUM = 2**64 - 1


def lower_pool(seq_num: int) -> list[int]:
    """From `seq_num` down to 1."""
    pool = [seq_num]
    while pool[-1] > 1:
        pool.append(lipmaa(pool[-1]))
    return pool


def upper_pool(seq_num: int) -> list[int]:
    """From `seq_num` up to its spine number, without what no sequence number can be."""
    return [number for number in shortest_path(seq_num, spine_number_from(seq_num)) if number <= MAX_SEQ_NUM]


def shortest_path(start: int, end: int) -> list[int]:
    """From `start` up to `end`, which is not below it: what a sparse range is made of."""
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


def is_fork_proof(one: Entry, one_hash: bytes, other: Entry, other_hash: bytes) -> bool:
    """Whether two validly signed entries cannot both belong to one log without a fork.

    They have one sequence number and different payloads; or name different entries for one sequence number;
    or one names another entry than the other for the other's place; or one follows the other, which ended the
    log. That one of two entries ends the log is no proof by itself: what follows is. Entries of different
    logs prove nothing.
    """
    if (one.public_key, one.log_id) != (other.public_key, other.log_id):
        return False
    if one.seq_num == other.seq_num and (
        (one.payload_size, one.payload_hash) != (other.payload_size, other.payload_hash)
    ):
        return True
    first, second = (one, other) if one.seq_num < other.seq_num else (other, one)
    if first.end_of_log and first.seq_num < second.seq_num:
        return True
    named_by_one, named_by_other = links_of(one), links_of(other)
    if any(named_by_other.get(seq_num, link) != link for seq_num, link in named_by_one.items()):
        return True
    return (
        named_by_one.get(other.seq_num, other_hash) != other_hash
        or named_by_other.get(one.seq_num, one_hash) != one_hash
    )


def forked_at(one: Entry, one_hash: bytes, other: Entry, other_hash: bytes) -> int:
    """From which sequence number on the log has two branches, as far as the two entries of a proof say."""
    named_by_one = {**links_of(one), one.seq_num: one_hash}
    named_by_other = {**links_of(other), other.seq_num: other_hash}
    differing = [number for number, name in named_by_one.items() if named_by_other.get(number, name) != name]
    # Where nothing differs, one of them ends the log, and the other follows it.
    return min(differing, default=max(one.seq_num, other.seq_num))


def links_of(entry: Entry) -> dict[int, bytes]:
    """The hashes that an entry names for sequence numbers before its own."""
    links = {}
    if entry.backlink is not None:
        links[entry.seq_num - 1] = entry.backlink
    if entry.skiplink is not None:
        links[lipmaa(entry.seq_num)] = entry.skiplink
    return links
