"""Encoding of Bamboo entries, with hashes of either flavour and Ed25519 (Bamboo, "entry encoding").

    tag            1    0: regular, 1: end of log
    public key     32
    log id         1-9  VarU64
    sequence num.  1-9  VarU64, from 1
    skiplink       34   only if it differs from the backlink
    backlink       34   only after the first entry
    payload size   1-9  VarU64
    payload hash   34
    signature      64   Ed25519 over everything before it

Hashes have 34 bytes in the YASMF flavour, which p2panda uses and which is the default here, and 66 in YAMF.

Decoding checks only the form, slightly more strictly than p2panda nodes do: these accept any tag but 1 as
regular and ignore the size byte in a hash. Bamboo calls both invalid, and no honest author writes them.
Signing an entry writes only bytes that decoding accepts.

A skiplink names an earlier entry as follows (Bamboo, "links and entry verification"): the spine is 1, 4, 13,
40, ..., the numbers (3**k - 1) / 2. The link of a spine number leads to the spine number before it. Every
other number is divided by the spine numbers below it, largest first, keeping the remainder; the spine number
of the first division with the remainder 0 is the link's span. Paths along these links are logarithmic. If the
span is 1, the skiplink would repeat the backlink, so it is left out.
"""

from bisect import bisect_left
from dataclasses import dataclass

from culm_models import keys, varu64
from culm_models.bamboo import errors
from culm_models.bamboo.hashes import HASH_SIZE, YASMF, HashFlavour
from culm_models.frozen import unfrozen
from culm_models.keys import PUBLIC_KEY_SIZE, SIGNATURE_SIZE

MIN_ENTRY_SIZE = 1 + PUBLIC_KEY_SIZE + 3 + HASH_SIZE + SIGNATURE_SIZE
"""Size of the smallest YASMF entry, in bytes."""

MAX_ENTRY_SIZE = 1 + PUBLIC_KEY_SIZE + 3 * varu64.MAX_SIZE + 3 * HASH_SIZE + SIGNATURE_SIZE
"""Size of the largest YASMF entry, in bytes. `max_entry_size` returns that of either flavour."""

_LOG_ID_OFFSET = 1 + PUBLIC_KEY_SIZE
_INLINE_LIMIT = 248


@dataclass(frozen=True, slots=True)
class Entry:
    """A signed entry. `public_key` has 32 bytes; links and `payload_hash` have the size of the flavour."""

    public_key: bytes
    log_id: int
    seq_num: int
    end_of_log: bool
    skiplink: bytes | None
    backlink: bytes | None
    payload_size: int
    payload_hash: bytes
    signature: bytes


_UnfrozenEntry = unfrozen(Entry)


def max_entry_size(flavour: HashFlavour) -> int:
    """Return the size of the largest possible entry with hashes of this flavour, in bytes."""
    return MAX_ENTRY_SIZE + 3 * (flavour.size - HASH_SIZE)


def decode_entry(data: bytes, flavour: HashFlavour = YASMF) -> Entry:
    """Decode an entry and check its form, but not its signature, payload or links. Raises `BambooError`."""
    hash_size, prefix = flavour.size, flavour.prefix
    try:
        tag = data[0]
        log_id = data[33]
        offset = _LOG_ID_OFFSET + 1
        if log_id >= _INLINE_LIMIT:
            log_id, size = varu64.decode(data, _LOG_ID_OFFSET)
            offset = _LOG_ID_OFFSET + size
        seq_num = data[offset]
        if seq_num < _INLINE_LIMIT:
            offset += 1
        else:
            seq_num, size = varu64.decode(data, offset)
            offset += size

        skiplink = backlink = None
        well_formed = True
        if seq_num > 1:
            end = offset + hash_size
            if needs_skiplink(seq_num):
                skiplink = data[offset:end]
                well_formed = skiplink.startswith(prefix)
                offset, end = end, end + hash_size
            backlink = data[offset:end]
            well_formed = well_formed and backlink.startswith(prefix)
            offset = end

        payload_size = data[offset]
        if payload_size < _INLINE_LIMIT:
            offset += 1
        else:
            payload_size, size = varu64.decode(data, offset)
            offset += size
        end = offset + hash_size
        payload_hash = data[offset:end]
    except (IndexError, varu64.VarU64Error):
        well_formed = False
    if (
        not well_formed
        or end + SIGNATURE_SIZE != len(data)
        or tag > 1
        or seq_num == 0
        or not payload_hash.startswith(prefix)
        or (skiplink is not None and skiplink == backlink)
    ):
        raise _fault(data, flavour)
    entry: Entry = _UnfrozenEntry(
        data[1:33], log_id, seq_num, tag == 1, skiplink, backlink, payload_size, payload_hash, data[end:]
    )
    entry.__class__ = Entry
    return entry


def assemble_entry(
    public_key: bytes,
    log_id: int,
    seq_num: int,
    skiplink: bytes | None,
    backlink: bytes | None,
    payload_size: int,
    payload_hash: bytes,
    signature: bytes,
) -> Entry:
    """Build a regular entry from its parts, as `decode_entry` would return it.

    The caller has checked that the links are those that the sequence number requires, that they differ, and
    that all hashes have the form of the same flavour.
    """
    entry: Entry = _UnfrozenEntry(
        public_key, log_id, seq_num, False, skiplink, backlink, payload_size, payload_hash, signature
    )
    entry.__class__ = Entry
    return entry


def measure_entry(data: bytes | memoryview, flavour: HashFlavour = YASMF) -> int | None:
    """Return the size of the entry at the beginning of `data` in bytes, or None if more bytes are needed.

    Raises `TagError`, `NumberFormError` and `SeqNumError`. `decode_entry` checks the form of the whole entry.
    """
    if len(data) <= _LOG_ID_OFFSET:
        if data and data[0] > 1:
            raise errors.EntryTagError(f"an entry starts with 0 or 1, not {data[0]}")
        return None
    if data[0] > 1:
        raise errors.EntryTagError(f"an entry starts with 0 or 1, not {data[0]}")
    try:
        _, size = varu64.decode(data, _LOG_ID_OFFSET)
        offset = _LOG_ID_OFFSET + size
        seq_num, size = varu64.decode(data, offset)
        if seq_num == 0:
            raise errors.SeqNumError("sequence numbers start at 1")
        offset += size + ((seq_num > 1) + needs_skiplink(seq_num)) * flavour.size
        _, size = varu64.decode(data, offset)
    except varu64.VarU64TruncatedError:
        return None
    except varu64.VarU64Error as error:
        raise errors.NumberFormError(str(error)) from None
    return offset + size + flavour.size + SIGNATURE_SIZE


def sign_entry(
    key_pair: keys.KeyPair,
    log_id: int,
    seq_num: int,
    payload: bytes,
    *,
    skiplink: bytes | None = None,
    backlink: bytes | None = None,
    end_of_log: bool = False,
    flavour: HashFlavour = YASMF,
) -> bytes:
    """Sign a new entry and return its bytes.

    The links must be exactly those that the sequence number requires. Raises the `BambooError` that decoding
    these bytes would raise.
    """
    if seq_num == 1 and (skiplink is not None or backlink is not None):
        raise errors.BacklinkUnexpectedError("entry 1 carries no link")
    for link in (skiplink, backlink):
        if link is not None and not flavour.has_form(link):
            raise errors.HashFormError(f"a link is a {flavour.name} hash of {flavour.size} bytes")
    unsigned = b"".join(
        (
            b"\x01" if end_of_log else b"\x00",
            key_pair.public_key,
            varu64.encode(log_id),
            varu64.encode(seq_num),
            skiplink or b"",
            backlink or b"",
            varu64.encode(len(payload)),
            flavour.hash(payload),
        )
    )
    entry_bytes = unsigned + key_pair.sign(unsigned)
    decode_entry(entry_bytes, flavour)
    return entry_bytes


def read_place(data: bytes) -> tuple[bytes, int, int] | None:
    """Read the public key, log id and sequence number of an entry without checking it.

    Returns None if the bytes are too short or malformed. Suffices to find out whether an entry is held; new
    entries are checked by `decode_entry`.
    """
    try:
        log_id, seq_num = data[_LOG_ID_OFFSET], data[_LOG_ID_OFFSET + 1]
        if log_id >= _INLINE_LIMIT or seq_num >= _INLINE_LIMIT:
            log_id, size = varu64.decode(data, _LOG_ID_OFFSET)
            seq_num, _ = varu64.decode(data, _LOG_ID_OFFSET + size)
    except (IndexError, varu64.VarU64Error):
        return None
    return data[1:_LOG_ID_OFFSET], log_id, seq_num


def _fault(data: bytes, flavour: HashFlavour) -> errors.BambooError:
    """Return the error for bytes that are not an entry: the first broken rule from the front."""
    if not data:
        return errors.TruncatedEntryError("an entry cannot be empty")
    if data[0] > 1:
        return errors.EntryTagError(f"an entry starts with 0 or 1, not {data[0]}")
    try:
        _, size = varu64.decode(data, _LOG_ID_OFFSET)
        links_offset = _LOG_ID_OFFSET + size
        seq_num, size = varu64.decode(data, links_offset)
        links_offset += size
        if seq_num == 0:
            return errors.SeqNumError("sequence numbers start at 1")
        expected = (seq_num > 1) + needs_skiplink(seq_num)
        links = _number_of_links(data, links_offset, flavour)
        if links is not None and links != expected:
            return _link_fault(seq_num, links)
        _, size = varu64.decode(data, links_offset + expected * flavour.size)
    except varu64.VarU64TruncatedError as error:
        return errors.TruncatedEntryError(str(error))
    except varu64.VarU64Error as error:
        return errors.NumberFormError(str(error))
    hash_offset = links_offset + expected * flavour.size + size
    for offset in (*range(links_offset, hash_offset - size, flavour.size), hash_offset):
        if len(data) >= offset + len(flavour.prefix) and not data.startswith(flavour.prefix, offset):
            return errors.HashFormError(f"no hash of the known form at byte {offset}")
    end = hash_offset + flavour.size + SIGNATURE_SIZE
    if len(data) < end:
        return errors.TruncatedEntryError(f"entry {seq_num} of {end} bytes ends at byte {len(data)}")
    if len(data) > end:
        return errors.EntryTrailingBytesError(f"{len(data) - end} bytes follow the signature")
    return errors.SkiplinkIdenticalError(f"skiplink and backlink of entry {seq_num} are the same hash")


def _number_of_links(data: bytes, links_offset: int, flavour: HashFlavour) -> int | None:
    """Return the number of links with which the rest of the entry fits exactly, or None if none does.

    The sequence number may require another number of links.
    """
    for links in range(3):
        offset = links_offset + links * flavour.size
        try:
            _, size = varu64.decode(data, offset)
        except varu64.VarU64Error:
            continue
        starts = (*range(links_offset, offset, flavour.size), offset + size)
        if offset + size + flavour.size + SIGNATURE_SIZE == len(data) and all(
            data.startswith(flavour.prefix, start) for start in starts
        ):
            return links
    return None


def _link_fault(seq_num: int, links: int) -> errors.BambooError:
    if seq_num == 1:
        return errors.BacklinkUnexpectedError("entry 1 carries a link")
    if links == 0:
        return errors.BacklinkMissingError(f"entry {seq_num} carries no backlink")
    if needs_skiplink(seq_num):
        return errors.SkiplinkMissingError(f"entry {seq_num} carries no skiplink")
    return errors.SkiplinkUnexpectedError(f"entry {seq_num} carries a skiplink")


# The last spine number exceeds all sequence numbers: the upper pools of the largest begin there.
_SPINE: tuple[int, ...] = tuple((int(3**k) - 1) // 2 for k in range(1, 43))
_ON_SPINE = frozenset(_SPINE)


def lipmaa(seq_num: int) -> int:
    """Return the sequence number that the skiplink of entry `seq_num` names; 0 for the first entry."""
    assert 1 <= seq_num <= _SPINE[-1], f"a sequence number is 1..2**64-1, not {seq_num}"
    position = bisect_left(_SPINE, seq_num)
    if seq_num in _ON_SPINE:
        return _SPINE[position - 1] if position else 0
    remainder = seq_num
    for spine_number in reversed(_SPINE[:position]):
        remainder %= spine_number
        if not remainder:
            return seq_num - spine_number
    raise AssertionError("every number is a multiple of 1")


def spine_number_from(seq_num: int) -> int:
    """Return the smallest spine number not below `seq_num`. It can exceed 2**64 - 1."""
    return _SPINE[bisect_left(_SPINE, seq_num)]


def _computed_needs_skiplink(seq_num: int) -> bool:
    return seq_num > 1 and lipmaa(seq_num) != seq_num - 1


# Nearly all logs are short, so the answer is nearly always in this table.
_TABLE_SIZE = 2048
_TABLE = bytes(_computed_needs_skiplink(seq_num) for seq_num in range(_TABLE_SIZE))


def needs_skiplink(seq_num: int) -> bool:
    """Whether entry `seq_num` has a skiplink in addition to its backlink."""
    if seq_num < _TABLE_SIZE:
        return bool(_TABLE[seq_num])
    return _computed_needs_skiplink(seq_num)
