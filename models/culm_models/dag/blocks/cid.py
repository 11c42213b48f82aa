"""CIDs: content identifiers in bytes and as text (reference 1.1, R1).

CIDs are ordered by their text, never by their bytes. The two orders differ: in base32 the digits 2 to 7 stand
for the highest values, but as text they sort before the letters.
"""

from __future__ import annotations

import hashlib
from functools import total_ordering
from typing import Final

import libipld

from culm_models.dag.blocks.multibase import base32, base58, from_base32, from_base58, from_multibase
from culm_models.dag.blocks.varint import VARINT_MAX, read_varint, write_varint
from culm_models.dag.errors import CidMalformed, VarintMalformed

RAW: Final = 0x55
DAG_PB: Final = 0x70
DAG_CBOR: Final = 0x71
DAG_JSON: Final = 0x0129
CAR: Final = 0x0202

IDENTITY: Final = 0x00
SHA2_256: Final = 0x12

_SHA2_256_SIZE: Final = 32
_V0_SIZE: Final = 34
_V0_TEXT_SIZE: Final = 46
_V0_START: Final = b"\x12\x20"
# The bytes before the digest in nearly every CID, with the codec that they name.
_COMMON_STARTS: Final = {
    b"\x01" + write_varint(codec) + _V0_START: codec for codec in (RAW, DAG_PB, DAG_CBOR, DAG_JSON, CAR)
}
_STARTS: Final = {codec: start for start, codec in _COMMON_STARTS.items()}
_COMMON_FOUR: Final = frozenset(start[:4] for start in _COMMON_STARTS)
_COMMON_SIZES: Final = {4 + _SHA2_256_SIZE: 4, 5 + _SHA2_256_SIZE: 5}


@total_ordering
class Cid:
    """A CID. Two CIDs are equal if their bytes are; they are ordered by their text."""

    __slots__ = ("_digest_at", "_text", "codec", "hash_code", "raw", "version")

    def __init__(self, raw: bytes, version: int, codec: int, hash_code: int, digest_at: int) -> None:
        self.raw = raw
        self.version = version
        self.codec = codec
        self.hash_code = hash_code
        self._digest_at = digest_at
        self._text: str | None = None

    @property
    def digest(self) -> bytes:
        """The digest of the block, or the content itself if the hash function is identity."""
        return self.raw[self._digest_at :]

    @property
    def text(self) -> str:
        """The canonical text of the CID (R1)."""
        if self._text is None:
            if self.raw[:4] in _COMMON_FOUR and self.is_sha2_256:
                self._text = libipld.encode_cid(self.raw)
            else:
                self._text = base58(self.raw) if self.version == 0 else "b" + base32(self.raw)
        return self._text

    @property
    def is_identity(self) -> bool:
        """Whether the CID contains the content itself instead of a digest."""
        return self.hash_code == IDENTITY

    @property
    def is_sha2_256(self) -> bool:
        """Whether the digest is a sha2-256 of full length."""
        return self.hash_code == SHA2_256 and len(self.raw) - self._digest_at == _SHA2_256_SIZE

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cid) and self.raw == other.raw

    def __lt__(self, other: Cid) -> bool:
        return self.text < other.text

    def __hash__(self) -> int:
        return hash(self.raw)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Cid({self.text})"


def common_cid(raw: bytes) -> Cid | None:
    """Parse a CIDv1 with a common codec and sha2-256. Returns None for any other bytes."""
    size = _COMMON_SIZES.get(len(raw))
    if size is None:
        return None
    codec = _COMMON_STARTS.get(raw[:size])
    return None if codec is None else Cid(raw, 1, codec, SHA2_256, size)


def common_cid_at(data: bytes, at: int) -> Cid | None:
    """Parse the CIDv1 with a common codec and sha2-256 that begins at `at`. Returns None if there is none."""
    size = 4
    codec = _COMMON_STARTS.get(data[at : at + 4])
    if codec is None:
        size = 5
        codec = _COMMON_STARTS.get(data[at : at + 5])
    end = at + size + _SHA2_256_SIZE
    if codec is None or end > len(data):
        return None
    return Cid(data[at:end], 1, codec, SHA2_256, size)


def cid_from_bytes(raw: bytes | memoryview) -> Cid:
    """Parse bytes that are exactly one CID. Raises `CidMalformed` if not, or if bytes follow."""
    cid, end = read_cid(raw, 0)
    if end != len(raw):
        raise CidMalformed(f"{len(raw) - end} bytes follow the CID")
    return cid


def read_cid(data: bytes | memoryview, at: int) -> tuple[Cid, int]:
    """Parse the CID that begins at `at`. Returns it with the offset of its end. Raises `CidMalformed`."""
    for size in (4, 5):
        codec = _COMMON_STARTS.get(bytes(data[at : at + size]))
        end = at + size + _SHA2_256_SIZE
        if codec is not None and end <= len(data):
            raw = bytes(data[at:end])
            return Cid(raw, 1, codec, SHA2_256, size), end
    if bytes(data[at : at + 2]) == _V0_START:
        end = at + _V0_SIZE
        raw = bytes(data[at:end])
        if len(raw) != _V0_SIZE:
            raise CidMalformed("the bytes end in a CID")
        return Cid(raw, 0, DAG_PB, SHA2_256, 2), end
    try:
        version, offset = read_varint(data, at)
        if version != 1:
            raise CidMalformed(f"no CID has version {version}")
        codec, offset = read_varint(data, offset)
        hash_code, offset = read_varint(data, offset)
        length, offset = read_varint(data, offset)
    except VarintMalformed as error:
        raise CidMalformed(f"not a CID: {error}") from None
    end = offset + length
    if end > len(data):
        raise CidMalformed("the bytes end in a CID")
    raw = bytes(data[at:end])
    return Cid(raw, 1, codec, hash_code, offset - at), end


def cid_from_text(text: str) -> Cid:
    """Parse the canonical text of a CID (R1). Raises `CidMalformed` for any other text."""
    if text.startswith("b"):
        raw = from_base32(text[1:])
        if raw is not None and not raw.startswith(_V0_START):
            return cid_from_bytes(raw)
    elif text.startswith("Qm") and len(text) == _V0_TEXT_SIZE:
        raw = from_base58(text, _V0_SIZE)
        if raw is not None and raw.startswith(_V0_START):
            return cid_from_bytes(raw)
    raise CidMalformed(f"{text[:100]!r} is not the text of a CID")


def cid_of_any_base(text: str) -> Cid:
    """Parse a CID that a person typed: base36, base58btc, base16 and upper case are accepted, too.

    Raises `CidMalformed`. Programs exchange only the canonical text; `cid_from_text` parses that.
    """
    if text.startswith("Qm"):
        return cid_from_text(text)
    raw = from_multibase(text)
    if raw is None or raw.startswith(_V0_START):
        raise CidMalformed(f"{text[:100]!r} is not the text of a CID")
    return cid_from_bytes(raw)


def make_cid(version: int, codec: int, hash_code: int, digest: bytes) -> Cid:
    """Build a CID from its parts. Raises `CidMalformed` if the version cannot express them."""
    if version == 0:
        if codec != DAG_PB or hash_code != SHA2_256 or len(digest) != _SHA2_256_SIZE:
            raise CidMalformed("a CIDv0 is always dag-pb with sha2-256")
        return Cid(_V0_START + digest, 0, codec, hash_code, 2)
    if version != 1:
        raise CidMalformed(f"no CID has version {version}")
    if not (0 <= codec <= VARINT_MAX and 0 <= hash_code <= VARINT_MAX):
        raise CidMalformed("a code does not fit a varint")
    start = b"\x01" + write_varint(codec) + write_varint(hash_code) + write_varint(len(digest))
    return Cid(start + digest, 1, codec, hash_code, len(start))


def cid_of(codec: int, data: bytes | memoryview) -> Cid:
    """Compute the CIDv1 of a block with sha2-256."""
    return cid_of_digest(codec, hashlib.sha256(data).digest())


def cid_of_digest(codec: int, digest: bytes) -> Cid:
    """Build the CIDv1 of a codec and a sha2-256 digest."""
    start = _STARTS.get(codec)
    if start is None:
        return make_cid(1, codec, SHA2_256, digest)
    return Cid(start + digest, 1, codec, SHA2_256, len(start))
