"""Lifting many items at once gives what lifting them one by one gives."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_shorthash_siphashx24

from culm_models.lifts import LIFTS, Item, Lift, pack
from culm_models.lifts.vectors import combine, join_items, lift_many, siphash128, split_items, xxh64

numbers = st.integers(0, 2**64 - 1)
items = st.tuples(st.binary(min_size=32, max_size=32), numbers, numbers)
messages = st.lists(st.binary(min_size=48, max_size=48), min_size=1, max_size=5)


def words_of(many: list[bytes]) -> np.ndarray:
    return np.ascontiguousarray(np.frombuffer(b"".join(many), "<u8").reshape(-1, 6).T)


@given(messages, numbers)
def test_xxh64_of_many_messages_is_xxh64_of_each(many: list[bytes], seed: int) -> None:
    assert xxh64(words_of(many), seed).tolist() == [xxhash.xxh64_intdigest(one, seed) for one in many]


@given(messages, st.binary(min_size=16, max_size=16))
def test_siphash_of_many_messages_is_siphash_of_each(many: list[bytes], salt: bytes) -> None:
    first, second = siphash128(words_of(many), salt)
    packed = [struct.pack("<QQ", *lanes) for lanes in zip(first.tolist(), second.tolist(), strict=True)]
    assert packed == [crypto_shorthash_siphashx24(one, salt) for one in many]


def test_siphash_gives_the_published_vector_of_48_bytes() -> None:
    # The authors' vectors.h, vectors_sip128[48].
    first, second = siphash128(words_of([bytes(range(48))]), bytes(range(16)))
    assert struct.pack("<QQ", *first, *second).hex() == "f7e5aef549f782cf379055a608269b16"


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: lift.name)
@given(st.lists(items, max_size=6))
def test_lifting_many_items_is_lifting_each(lift: Lift, many: list[Item]) -> None:
    salt = bytes(range(lift.salt_bytes))
    packed = b"".join(map(pack, many))
    lanes = lift_many(lift, *split_items(packed), salt)
    assert lanes.shape == (len(many), lift.lane_count)
    each = [lift.lanes(item, salt) for item in many]
    assert list(map(tuple, lanes.tolist())) == each
    assert combine(lift, lanes) == lift.total(each)
    assert join_items(*split_items(packed)).tobytes() == packed


def test_pieces_join_without_a_seam() -> None:
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 256, (20_000, 48), np.uint8)
    (lift,) = [one for one in LIFTS if one.name == "add128"]
    lanes = lift_many(lift, *split_items(rows))
    for index in (0, 16_383, 16_384, 19_999):
        row = rows[index].tobytes()
        item = (row[:32], *struct.unpack(">QQ", row[32:]))
        assert tuple(lanes[index].tolist()) == lift.lanes(item)


def test_a_part_of_an_item_is_refused() -> None:
    with pytest.raises(ValueError, match="48"):
        split_items(bytes(49))
