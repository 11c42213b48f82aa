"""Making an entry, and the checks that need no other entry (Bamboo, "entry verification", first part)."""

from culm_models import keys, varu64
from culm_models.bamboo import errors
from culm_models.bamboo import hashes as yasmf
from culm_models.bamboo.entry import Entry, decode_entry


def entry_hash(entry_bytes: bytes) -> bytes:
    """The 34-byte hash of a signed entry: its identifier, and in p2panda its operation's as well."""
    return yasmf.hash_bytes(entry_bytes)


def verify_signature(entry_bytes: bytes, entry: Entry) -> None:
    """Raise `SignatureError` unless the author signed `entry_bytes`, of which `entry` is the decoded form."""
    signed = entry_bytes[: -keys.SIGNATURE_SIZE]
    if not keys.verify(entry.public_key, entry.signature, signed):
        raise errors.SignatureError(
            f"entry {entry.seq_num} in log {entry.log_id} is not signed by {entry.public_key.hex()}"
        )


def check_payload(entry: Entry, payload: bytes) -> None:
    """Raise `PayloadSizeError` or `PayloadHashError` unless `payload` is what the entry commits to."""
    if len(payload) != entry.payload_size:
        raise errors.PayloadSizeError(
            f"entry {entry.seq_num} states {entry.payload_size} bytes, the payload has {len(payload)}"
        )
    if yasmf.hash_bytes(payload) != entry.payload_hash:
        raise errors.PayloadHashError(f"the payload is not the one that entry {entry.seq_num} names")


def sign_entry(
    key_pair: keys.KeyPair,
    log_id: int,
    seq_num: int,
    payload: bytes,
    *,
    skiplink: bytes | None = None,
    backlink: bytes | None = None,
    end_of_log: bool = False,
) -> bytes:
    """The bytes of a new entry. Links that the sequence number does not ask for are refused, as are gaps.

    Raises the `BambooError` that a reader of these bytes would raise.
    """
    if seq_num == 1 and (skiplink is not None or backlink is not None):
        raise errors.BacklinkUnexpectedError("entry 1 carries no link")
    for link in (skiplink, backlink):
        if link is not None:
            yasmf.check_hash(link)
    unsigned = b"".join(
        (
            b"\x01" if end_of_log else b"\x00",
            key_pair.public_key,
            varu64.encode(log_id),
            varu64.encode(seq_num),
            skiplink or b"",
            backlink or b"",
            varu64.encode(len(payload)),
            yasmf.hash_bytes(payload),
        )
    )
    entry_bytes = unsigned + key_pair.sign(unsigned)
    decode_entry(entry_bytes)
    return entry_bytes
