"""Each lift against an implementation that is not ours, and the form of a fingerprint that names it."""

from __future__ import annotations

import struct

import cbor2
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from nacl.bindings import crypto_shorthash_siphashx24

from culm_models import lifts
from culm_models.lifts import ADD64, ADD128, LIFTS, SIPHASH128, XOR64, Item, Lift

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
