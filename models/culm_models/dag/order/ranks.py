"""Sort keys of operations (reference 5.3): the suffix maxima of the path from the root, as linked stacks.

The key of an operation is the key of its prior without the trailing CIDs that are smaller, and then its own.
Keys compare element by element, a prefix first; sorted by key, operations stand in the greedy order of 5.2.

Keys are shared: each element points to the one before it, and far back to another one (skew-binary jumps). So
pushing and comparing take O(log n) steps however long keys are: whoever grinds a long falling run of CIDs and
hangs many children on its end gains nothing.
"""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import IDENTITY, RAW, Cid, make_cid

# Keys up to this length are tuples as well.
_SHORT: Final = 32
# Behind every text.
_TOP: Final = "\U0010ffff"


class Rank:
    """One operation, and its place in the tree of keys and in that of priors."""

    __slots__ = ("below", "chain_depth", "chain_jump", "cid", "depth", "jump", "prior", "short", "text")

    cid: Cid
    text: str
    """The CID's; the order is that of texts."""
    below: Rank
    """The key without its last element, the CID itself; the root's where nothing is left."""
    jump: Rank
    depth: int
    """How many elements the key has."""
    short: tuple[str, ...] | None
    """The texts of the key, where it is short, as nearly all are: these are compared at once."""
    prior: Rank
    chain_depth: int
    chain_jump: Rank | None
    """An ancestor far back; made when somebody asks whether one operation builds on another."""

    def key(self) -> list[Cid]:
        """The elements of the key."""
        found = []
        at = self
        while at.depth:
            found.append(at.cid)
            at = at.below
        return found[::-1]


def _root() -> Rank:
    root = Rank()
    root.cid = make_cid(1, RAW, IDENTITY, b"")
    root.text = _TOP
    root.short = ()
    root.depth = root.chain_depth = 0
    root.below = root.jump = root.prior = root.chain_jump = root
    return root


ROOT: Final = _root()
"""The virtual prior of all operations without one; before every key."""


def rank_of(cid: Cid, prior: Rank) -> Rank:
    """The rank of an operation on another, or on `ROOT`."""
    text = cid.text
    below = prior
    while below.text < text:
        below = below.jump if below.jump.text < text else below.below
    rank = Rank()
    rank.cid = cid
    rank.text = text
    rank.below = below
    rank.depth = below.depth + 1
    head = below.short if below.depth < _SHORT else None
    rank.short = None if head is None else (*head, text)
    far = below.jump
    rank.jump = far.jump if below.depth - far.depth == far.depth - far.jump.depth else below
    rank.prior = prior
    rank.chain_depth = prior.chain_depth + 1
    rank.chain_jump = None
    return rank


def sorts_before(one: Rank, other: Rank) -> bool:
    """Whether `one` stands before `other` in the order."""
    if one.short is not None and other.short is not None:
        return one.short < other.short
    if one.depth > other.depth:
        one = _climb(one, other.depth)
        if one is other:
            return False
    elif other.depth > one.depth:
        other = _climb(other, one.depth)
        if one is other:
            return True
    while one.below is not other.below:
        if one.jump is not other.jump:
            one, other = one.jump, other.jump
        else:
            one, other = one.below, other.below
    return one.text < other.text


def _climb(rank: Rank, depth: int) -> Rank:
    while rank.depth > depth:
        rank = rank.jump if rank.jump.depth >= depth else rank.below
    return rank


def builds_on(one: Rank, other: Rank) -> bool:
    """Whether `other` is `one` or stands above it in its chain of priors."""
    if one is other or one.prior is other:
        return True
    depth = other.chain_depth
    while one.chain_depth > depth:
        far = _chain_jump(one)
        one = far if far.chain_depth >= depth else one.prior
    return one is other


def _chain_jump(rank: Rank) -> Rank:
    """The jump of an operation, after those of all ancestors that have none yet: each is made once."""
    waiting = []
    at = rank
    while at.chain_jump is None:
        waiting.append(at)
        at = at.prior
    found: Rank = at.chain_jump
    for one in reversed(waiting):
        # What is found so far is the jump of the prior; all above a jump that was made are made as well.
        prior, far = one.prior, found
        beyond = far.chain_jump or far
        even = prior.chain_depth - far.chain_depth == far.chain_depth - beyond.chain_depth
        one.chain_jump = found = beyond if even else prior
    return found
