"""The compact form of the messages of set reconciliation (specification "replication", 2.1, shortened).

The messages are those of the specification with two shorter spellings. A public key is its 32 bytes. A bound
whose log id and sequence number are 0 is its key's bytes without the zero bytes at their end, as a bare byte
string. Both spellings are exact: whatever bound a message has, its other spelling reads back as the same.

What saves bytes is the choice of bounds. Whoever cuts its items into ranges is free in where between two
neighbours it cuts, so it cuts at the shortest prefix that keeps the neighbours apart (`separating_bound`).
That bound is the one that both ends work with from then on; nothing is cut short on the way. Most such bounds
are no keys (they end in zero bytes), so they are for remotes that offer the compact form: a plain peer might
refuse them.
"""

from typing import Final, TypeAlias

from culm_models.keys import PUBLIC_KEY_SIZE

Bound: TypeAlias = tuple[bytes, int, int]
"""An end of a range: public key (32 bytes), log id, sequence number from 0."""

LOWEST_BOUND: Final[Bound] = (bytes(PUBLIC_KEY_SIZE), 0, 0)
"""No item sorts before it: where a set that is cut in the compact form begins."""


def separating_bound(before: Bound | None, item: Bound) -> Bound:
    """The bound b with before < b <= item whose compact spelling is shortest, on one side of every log.

    `before` is the item in front of `item` in sort order, of another log; None where `item` is the first.
    Two logs of one author have no shorter bound between them than the second log's start.
    """
    if before is None:
        return LOWEST_BOUND
    key, log_id, _ = item
    other = before[0]
    if key == other:
        return key, log_id, 0
    size = 1
    # The keys differ and are in order, so the first byte that differs is the greater one in `key`.
    while key[:size] == other[:size]:
        size += 1
    return padded(key[:size]), 0, 0


def prefix(public_key: bytes) -> bytes:
    """The spelling of the bound (public key, 0, 0)."""
    return public_key.rstrip(b"\x00")


def padded(spelled: bytes) -> bytes:
    """The key of a bound that is spelled as a prefix of at most 32 bytes."""
    return spelled.ljust(PUBLIC_KEY_SIZE, b"\x00")
