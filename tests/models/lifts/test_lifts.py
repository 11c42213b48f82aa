"""Each lift against an implementation that is not ours, and the form of a fingerprint that names it."""

from __future__ import annotations

import struct

import cbor2
import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_shorthash_siphashx24

from culm_models import lifts
from culm_models.lifts import ADD64, ADD128, LIFTS, SIPHASH128, XOR64, Item, Lift, pack
from culm_models.lifts.vectors import combine, join_items, lift_many, siphash128, split_items, xxh64

numbers = st.one_of(
    st.integers(0, 2**64 - 1),
    st.sampled_from([0, 23, 24, 255, 256, 65_535, 65_536, 2**32 - 1, 2**32, 2**64 - 1]),
)
items = st.tuples(st.binary(min_size=32, max_size=32), numbers, numbers)
salts = st.binary(min_size=16, max_size=16)
any_lift = pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: lift.name)


def salt_of(lift: Lift) -> bytes:
    return bytes(range(lift.salt_bytes))


def as_message(item: Item) -> bytes:
    return cbor2.dumps([item[0].hex(), item[1], item[2]])


@given(items)
def test_the_64_bit_lifts_hash_the_cbor_of_messages(item: Item) -> None:
    assert XOR64.lanes(item) == (xxhash.xxh64_intdigest(as_message(item)),)
    assert ADD64.lanes(item) == (xxhash.xxh3_64_intdigest(as_message(item)),)


@given(items)
def test_add128_hashes_48_bytes_with_two_seeds(item: Item) -> None:
    packed = item[0] + struct.pack(">QQ", item[1], item[2])
    second = xxhash.xxh64_intdigest(b"culm", seed=42)
    assert ADD128.lanes(item) == (
        xxhash.xxh64_intdigest(packed, seed=42),
        xxhash.xxh64_intdigest(packed, seed=second),
    )


@given(items, salts)
def test_siphash128_is_the_keyed_hash_of_48_bytes(item: Item, salt: bytes) -> None:
    packed = item[0] + struct.pack(">QQ", item[1], item[2])
    lanes = struct.pack("<QQ", *SIPHASH128.lanes(item, salt))
    assert lanes == crypto_shorthash_siphashx24(packed, salt)


def test_siphash128_gives_the_published_vector_of_48_bytes() -> None:
    # The authors' vectors.h, vectors_sip128[48]: message 00 01 .. 2f under the key 00 01 .. 0f.
    message = bytes(range(48))
    item = (message[:32], *struct.unpack(">QQ", message[32:]))
    lanes = SIPHASH128.lanes(item, bytes(range(16)))
    assert struct.pack("<QQ", *lanes).hex() == "f7e5aef549f782cf379055a608269b16"


@any_lift
@given(st.lists(items, unique=True, max_size=8), st.data())
def test_a_set_without_a_part_has_the_lanes_of_the_rest(
    lift: Lift, members: list[Item], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(members)))
    lanes = [lift.lanes(item, salt_of(lift)) for item in members]
    assert lift.without(lift.total(lanes), lift.total(lanes[:cut])) == lift.total(lanes[cut:])
    assert lift.total(reversed(lanes)) == lift.total(lanes)


@any_lift
@given(st.lists(items, max_size=3))
def test_a_fingerprint_names_its_lift_and_its_salt(lift: Lift, members: list[Item]) -> None:
    salt = salt_of(lift)
    fingerprint = lift.fingerprint(members, salt)
    read = lifts.read_fingerprint(fingerprint)
    assert read.lift is lift
    assert read.salt == salt
    assert lift.prefix(salt) + read.value == fingerprint
    assert lift.value(lift.read_value(read.value)) == read.value
    for broken in (fingerprint[:-1], fingerprint + b"\x00"):
        with pytest.raises(lifts.FingerprintLengthError):
            lifts.read_fingerprint(broken)


@any_lift
def test_the_empty_set_has_a_value_of_zeros(lift: Lift) -> None:
    salt = salt_of(lift)
    assert lift.fingerprint([], salt) == bytes((lift.code,)) + salt + bytes(8 * lift.lane_count)


def test_the_registry_knows_its_lifts_by_name_and_code() -> None:
    named = {lift.name: (lift.code, lift.lane_count) for lift in LIFTS}
    assert named == {"xor64": (1, 1), "add64": (2, 1), "add128": (3, 2), "siphash128": (4, 2)}
    for lift in LIFTS:
        assert lifts.by_name(lift.name) is lifts.by_code(lift.code) is lift
    for unknown in (0, 5, 255):
        with pytest.raises(lifts.UnknownLiftError):
            lifts.by_code(unknown)
    with pytest.raises(lifts.UnknownLiftError):
        lifts.by_name("md5")
    with pytest.raises(lifts.FingerprintLengthError):
        lifts.read_fingerprint(b"")


# Lifting many published_items at once gives what lifting them one by one gives.


published = st.integers(0, 2**64 - 1)
published_items = st.tuples(st.binary(min_size=32, max_size=32), published, published)
messages = st.lists(st.binary(min_size=48, max_size=48), min_size=1, max_size=5)


def words_of(many: list[bytes]) -> np.ndarray:
    return np.ascontiguousarray(np.frombuffer(b"".join(many), "<u8").reshape(-1, 6).T)


@given(messages, published)
def test_xxh64_of_many_messages_is_xxh64_of_each(many: list[bytes], seed: int) -> None:
    assert xxh64(words_of(many), seed).tolist() == [xxhash.xxh64_intdigest(message, seed) for message in many]


@given(messages, st.binary(min_size=16, max_size=16))
def test_siphash_of_many_messages_is_siphash_of_each(many: list[bytes], salt: bytes) -> None:
    first, second = siphash128(words_of(many), salt)
    packed = [struct.pack("<QQ", *lanes) for lanes in zip(first.tolist(), second.tolist(), strict=True)]
    assert packed == [crypto_shorthash_siphashx24(message, salt) for message in many]


def test_siphash_gives_the_published_vector_of_48_bytes() -> None:
    # The authors' vectors.h, vectors_sip128[48].
    first, second = siphash128(words_of([bytes(range(48))]), bytes(range(16)))
    assert struct.pack("<QQ", *first, *second).hex() == "f7e5aef549f782cf379055a608269b16"


@pytest.mark.parametrize("lift", LIFTS, ids=lambda lift: lift.name)
@given(st.lists(published_items, max_size=6))
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
    (lift,) = [lift for lift in LIFTS if lift.name == "add128"]
    lanes = lift_many(lift, *split_items(rows))
    for index in (0, 16_383, 16_384, 19_999):
        row = rows[index].tobytes()
        item = (row[:32], *struct.unpack(">QQ", row[32:]))
        assert tuple(lanes[index].tolist()) == lift.lanes(item)


def test_a_part_of_an_item_is_refused() -> None:
    with pytest.raises(ValueError, match="48"):
        split_items(bytes(49))


# Why XOR is no default: with 65 items of one's own choice some of them vanish, whatever the hash. The
# attack needs nothing but linear algebra over the bits of the lifts. The same items do not fool addition.


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
            return [member for member in range(index + 1) if members >> member & 1]
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
