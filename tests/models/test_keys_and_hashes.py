import nacl.exceptions
import nacl.signing
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models import keys
from culm_models.bamboo import hashes as yasmf

# RFC 8032, section 7.1, test 2.
RFC_PRIVATE_KEY = bytes.fromhex("4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb")
RFC_PUBLIC_KEY = bytes.fromhex("3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c")
RFC_SIGNATURE = bytes.fromhex(
    "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
    "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
)
GROUP_ORDER = 2**252 + 27742317777372353535851937790883648493


def test_the_signature_of_the_rfc() -> None:
    pair = keys.KeyPair.from_private_key(RFC_PRIVATE_KEY)
    assert pair.public_key == RFC_PUBLIC_KEY
    assert pair.sign(b"\x72") == RFC_SIGNATURE
    assert keys.verify(RFC_PUBLIC_KEY, RFC_SIGNATURE, b"\x72")


@given(st.binary(max_size=200), st.integers(0, 95), st.integers(0, 7))
def test_a_changed_bit_of_key_or_signature_is_refused(data: bytes, position: int, bit: int) -> None:
    pair = keys.KeyPair.generate(b"author")
    signature = pair.sign(data)
    assert keys.verify(pair.public_key, signature, data)
    changed = bytearray(pair.public_key + signature)
    changed[position] ^= 1 << bit
    assert not keys.verify(bytes(changed[:32]), bytes(changed[32:]), data)
    assert not keys.verify(pair.public_key, signature, data + b"\x00")


def _accepted_by_pynacl(public_key: bytes, signature: bytes, data: bytes) -> bool:
    try:
        nacl.signing.VerifyKey(public_key).verify(data, signature)
    except nacl.exceptions.BadSignatureError:
        return False
    return True


@pytest.mark.parametrize("public_key", [bytes(32), b"\x01" + bytes(31), b"\xff" * 32, RFC_PUBLIC_KEY])
def test_odd_keys_and_signatures_are_judged_as_libsodium_judges_them(public_key: bytes) -> None:
    scalar = int.from_bytes(RFC_SIGNATURE[32:], "little") + GROUP_ORDER
    non_canonical = RFC_SIGNATURE[:32] + scalar.to_bytes(32, "little")
    for signature in (bytes(64), b"\x01" + bytes(63), b"\xff" * 64, non_canonical, RFC_SIGNATURE):
        assert keys.verify(public_key, signature, b"\x72") == _accepted_by_pynacl(
            public_key, signature, b"\x72"
        )


@pytest.mark.parametrize(("key_size", "signature_size"), [(31, 64), (33, 64), (32, 63), (32, 65), (0, 0)])
def test_keys_and_signatures_of_another_size_are_refused(key_size: int, signature_size: int) -> None:
    assert not keys.verify(bytes(key_size), bytes(signature_size), b"")


def test_a_key_pair_never_shows_its_private_key() -> None:
    pair = keys.KeyPair.generate(b"author")
    assert pair.private_key.hex() not in repr(pair) + str(pair)
    assert keys.KeyPair.from_private_key(pair.private_key).public_key == pair.public_key
    assert keys.KeyPair.generate(b"other").public_key != pair.public_key


def test_the_hash_of_nothing() -> None:
    # The published BLAKE3 digest of empty input.
    digest = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert yasmf.hash_bytes(b"").hex() == "0020" + digest


@pytest.mark.parametrize("data", [b"", bytes(34), b"\x00\x20" + bytes(31), b"\x00\x20" + bytes(33)])
def test_what_has_not_the_form_of_a_hash_is_none(data: bytes) -> None:
    assert not yasmf.YASMF.has_form(data)
    assert yasmf.YASMF.has_form(yasmf.YASMF.hash(data))


def test_the_hash_of_nothing_in_the_older_flavour() -> None:
    # The published BLAKE2b digest of empty input.
    digest = (
        "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419"
        "d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce"
    )
    assert yasmf.YAMF.hash(b"").hex() == "0040" + digest
    assert not yasmf.YASMF.has_form(yasmf.YAMF.hash(b""))
