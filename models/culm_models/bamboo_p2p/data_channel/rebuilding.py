"""Rebuilding of entries from metadata: adds the fields that it leaves out, then verifies (R51, R52)."""

from __future__ import annotations

from culm_models import keys, varu64
from culm_models.bamboo.entry import decode_entry, lipmaa, needs_skiplink
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.store import BambooStore, HeldEntry
from culm_models.bamboo_p2p.wire.messages import Metadata


class LinkUnknown(Exception):
    """A link of the entry is unknown or uncertain, so a failure cannot be attributed to the other end."""


def left_out_backlink(request: Request, seq_num: int) -> bool:
    """Whether the metadata of an entry of this request leaves out the backlink (R52)."""
    return not needs_skiplink(seq_num) or request.sequence.follows_its_backlink(seq_num)


def rebuild_entry(request: Request, seq_num: int, metadata: Metadata, store: BambooStore) -> HeldEntry | None:
    """Rebuild and verify an entry. Returns None if it is not what its author signed.

    Raises `LinkUnknown` if a link is unknown, or if the entry is invalid and a link may be of another branch.
    """
    links: list[bytes] = []
    is_sure = True
    if seq_num > 1:
        targets = [lipmaa(seq_num)] if needs_skiplink(seq_num) else []
        if metadata.backlink is None:
            targets.append(seq_num - 1)
        for target in targets:
            target_entry = store.entry(request.log, target)
            if target_entry is None:
                raise LinkUnknown
            if request.notified_metadata:
                index = request.sequence.metadata_index(target)
                is_sure = is_sure and (index is None or index not in request.notified_metadata)
            links.append(target_entry.hash)
        if metadata.backlink is not None:
            links.append(metadata.backlink)
    public_key, log_id = request.log
    signed = b"".join(
        (
            b"\x01" if metadata.end_of_log else b"\x00",
            public_key,
            varu64.encode(log_id),
            varu64.encode(seq_num),
            *links,
            varu64.encode(metadata.payload_size),
            metadata.payload_hash,
        )
    )
    entry_bytes = signed + metadata.signature
    flavour = store.flavour
    try:
        entry = decode_entry(entry_bytes, flavour)
    except BambooError:
        entry = None
    if entry is None or not keys.verify(public_key, metadata.signature, signed):
        if not is_sure:
            raise LinkUnknown
        return None
    return HeldEntry(entry, entry_bytes, flavour.hash(entry_bytes))
