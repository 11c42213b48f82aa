"""Entries out of metadata: what was left out comes from the request, then all is verified (R51, R52)."""

from __future__ import annotations

from culm_models import keys, varu64
from culm_models.bamboo.entry import decode_entry
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.fork_proof import is_fork_proof
from culm_models.bamboo.lipmaa import lipmaa, needs_skiplink
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.store import BambooStore, ForkProof, HeldEntry
from culm_models.bamboo_p2p.wire.messages import Metadata


class LinkUnknown(Exception):
    """A link of the entry is not known here, so the entry can be neither rebuilt nor blamed on anyone."""


def left_out_backlink(request: Request, seq_num: int) -> bool:
    """Whether the backlink of an entry of this request is left out of its metadata (R52)."""
    return not needs_skiplink(seq_num) or request.sequence.follows_its_backlink(seq_num)


def rebuild_entry(request: Request, seq_num: int, metadata: Metadata, store: BambooStore) -> HeldEntry | None:
    """The verified entry; None if it is not what its author signed.

    Raises `LinkUnknown` where a link cannot be known, or is not sure to be of the branch of this request.
    """
    links: list[bytes] = []
    is_sure = True
    if seq_num > 1:
        targets = [lipmaa(seq_num)] if needs_skiplink(seq_num) else []
        if metadata.backlink is None:
            targets.append(seq_num - 1)
        for target in targets:
            held = store.entry(request.log, target)
            if held is None:
                raise LinkUnknown
            if request.notified_metadata:
                index = request.sequence.metadata_index(target)
                is_sure = is_sure and (index is None or index not in request.notified_metadata)
            links.append(held.hash)
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


def fork_with_held(log_entry: HeldEntry, store: BambooStore) -> ForkProof | None:
    """What proves that a valid entry and those that are held went two ways (1.5); None if nothing does.

    Links are compared wherever both entries are there; of a link from above, the backlink alone.
    """
    entry = log_entry.entry
    log = (entry.public_key, entry.log_id)
    seq_num = entry.seq_num
    held = store.entry(log, seq_num)
    if held is not None:
        is_proof = is_fork_proof(held.entry, held.hash, entry, log_entry.hash)
        return (held.entry_bytes, log_entry.entry_bytes) if is_proof else None
    before = store.entry(log, seq_num - 1)
    if before is not None and entry.backlink not in (None, before.hash):
        return before.entry_bytes, log_entry.entry_bytes
    if entry.skiplink is not None:
        target = store.entry(log, lipmaa(seq_num))
        if target is not None and entry.skiplink != target.hash:
            return target.entry_bytes, log_entry.entry_bytes
    after = store.entry(log, seq_num + 1)
    if after is not None and after.entry.backlink not in (None, log_entry.hash):
        return log_entry.entry_bytes, after.entry_bytes
    end_of_log = store.end_of_log(log)
    if end_of_log is not None and end_of_log < seq_num:
        last = store.entry(log, end_of_log)
        assert last is not None, "an end of a log is a held entry"
        return last.entry_bytes, log_entry.entry_bytes
    highest = store.highest_entry(log)
    if entry.end_of_log and highest > seq_num:
        later = store.entry(log, highest)
        assert later is not None, "the highest entry is held"
        return log_entry.entry_bytes, later.entry_bytes
    return None
