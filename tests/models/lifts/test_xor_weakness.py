"""Why XOR is no default: with 65 items of one's own choice some of them vanish, whatever the hash.

The attack needs nothing but linear algebra over the bits of the lifts. The same items do not fool addition.
"""

from __future__ import annotations

from culm_models.lifts import ADD128, XOR64, Item


def vanishing_subset(vectors: list[int]) -> list[int]:
    """Indices of some of these numbers whose XOR is 0: there always is one among 65 of 64 bits."""
    basis: dict[int, tuple[int, int]] = {}
    for index, vector in enumerate(vectors):
        members = 1 << index
        while vector:
            top = vector.bit_length()
            if top not in basis:
                basis[top] = vector, members
                break
            vector ^= basis[top][0]
            members ^= basis[top][1]
        else:
            return [place for place in range(index + 1) if members >> place & 1]
    raise AssertionError("more vectors than bits are never independent")


def items_of_an_attacker() -> list[Item]:
    return [(b"attacker" + bytes(24), log_id, 1) for log_id in range(65)]


def test_xor64_does_not_see_a_subset_that_65_items_always_have() -> None:
    items = items_of_an_attacker()
    hidden = vanishing_subset([XOR64.lanes(item)[0] for item in items])
    assert len(hidden) > 1
    withheld = [item for index, item in enumerate(items) if index not in hidden]
    assert XOR64.fingerprint(items) == XOR64.fingerprint(withheld)


def test_add128_sees_the_subset_that_fools_xor() -> None:
    items = items_of_an_attacker()
    for lane in (0, 1):
        hidden = vanishing_subset([ADD128.lanes(item)[lane] for item in items])
        withheld = [item for index, item in enumerate(items) if index not in hidden]
        assert ADD128.fingerprint(items) != ADD128.fingerprint(withheld)
    doubled = [items[0], items[0]]
    assert XOR64.fingerprint(doubled) == XOR64.fingerprint([])
    assert ADD128.fingerprint(doubled) != ADD128.fingerprint([])
