"""Sort keys of operations (reference 5.3): the suffix maxima of the path from the root, as linked stacks.

The key of an operation is the key of its prior, without the trailing CIDs that are smaller than the
operation's, followed by the operation's own CID. Keys are compared element by element, and a prefix sorts
first. Operations sorted by key are in the greedy order of 5.2.

Keys share their elements: each element points to the one before it and to one far back (skew-binary jumps).
Pushing and comparing therefore take O(log n) steps for keys of any length. An attacker who grinds a long
descending run of CIDs and adds many children at its end gains nothing.
"""

from __future__ import annotations

from typing import Final

from culm_models.dag.blocks.cid import IDENTITY, RAW, Cid, make_cid

# Keys up to this length are stored as tuples, too.
_SHORT: Final = 32
# Sorts after the text of every CID.
_TOP: Final = "\U0010ffff"


class Rank:
    """An operation with its position in the tree of keys and in the tree of priors."""

    __slots__ = ("below", "chain_depth", "chain_jump", "cid", "depth", "jump", "prior", "short", "text")

    cid: Cid
    text: str
    """Text of the CID; CIDs are ordered by their text."""
    below: Rank
    """Rank of the key without its last element (the CID itself); `ROOT` if no element is left."""
    jump: Rank
    depth: int
    """Number of elements of the key."""
    short: tuple[str, ...] | None
    """Texts of the key if it is short, as nearly all are. Short keys are compared directly."""
    prior: Rank
    chain_depth: int
    chain_jump: Rank | None
    """An ancestor far back; computed when `builds_on` first needs it."""

    def key(self) -> list[Cid]:
        """Return the elements of the key."""
        elements = []
        at = self
        while at.depth:
            elements.append(at.cid)
            at = at.below
        return elements[::-1]


def _root() -> Rank:
    root = Rank()
    root.cid = make_cid(1, RAW, IDENTITY, b"")
    root.text = _TOP
    root.short = ()
    root.depth = root.chain_depth = 0
    root.below = root.jump = root.prior = root.chain_jump = root
    return root


ROOT: Final = _root()
"""Virtual prior of all operations without a prior. It sorts before every key."""


def rank_of(cid: Cid, prior: Rank) -> Rank:
    """Build the rank of an operation whose prior has the rank `prior`, or `ROOT` if it has no prior."""
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


def sorts_before(rank: Rank, other: Rank) -> bool:
    """Whether `rank` sorts before `other`."""
    if rank.short is not None and other.short is not None:
        return rank.short < other.short
    if rank.depth > other.depth:
        rank = _climb(rank, other.depth)
        if rank is other:
            return False
    elif other.depth > rank.depth:
        other = _climb(other, rank.depth)
        if rank is other:
            return True
    while rank.below is not other.below:
        if rank.jump is not other.jump:
            rank, other = rank.jump, other.jump
        else:
            rank, other = rank.below, other.below
    return rank.text < other.text


def _climb(rank: Rank, depth: int) -> Rank:
    while rank.depth > depth:
        rank = rank.jump if rank.jump.depth >= depth else rank.below
    return rank


def builds_on(rank: Rank, other: Rank) -> bool:
    """Whether `other` is `rank` or an ancestor in its chain of priors."""
    if rank is other or rank.prior is other:
        return True
    depth = other.chain_depth
    while rank.chain_depth > depth:
        far = _chain_jump(rank)
        rank = far if far.chain_depth >= depth else rank.prior
    return rank is other


def _chain_jump(rank: Rank) -> Rank:
    """Return the jump of an operation. Computes it first for all ancestors that have none, once each."""
    waiting = []
    at = rank
    while at.chain_jump is None:
        waiting.append(at)
        at = at.prior
    jump: Rank = at.chain_jump
    for ancestor in reversed(waiting):
        # `jump` is the jump of the prior; all ancestors of a rank with a jump have jumps, too.
        prior, far = ancestor.prior, jump
        beyond = far.chain_jump or far
        even = prior.chain_depth - far.chain_depth == far.chain_depth - beyond.chain_depth
        ancestor.chain_jump = jump = beyond if even else prior
    return jump
