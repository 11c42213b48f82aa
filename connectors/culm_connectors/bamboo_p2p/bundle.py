"""Bundles: entries, the certificate pools that prove them, and payloads in one file.

    "culm bamboo 2\n"  flavour "\n"
    'e'  size of the entry (4 bytes)  entry                        an entry without its payload
    'p'  size of the entry  entry  size of the payload (8 bytes)  payload
    'f'  size of an entry  entry  size of another  entry           two that prove a fork (version 2 only)
    '.'  number of records (8 bytes)                               the end

Numbers are big-endian. The entries of a log are in order, so each follows the entries that it links to.
Imported entries and payloads are checked as on a connection.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from culm_connectors.bamboo_p2p.errors import BundleError
from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.checks import check_signature
from culm_models.bamboo.entry import Entry, decode_entry, lipmaa, max_entry_size
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.fork_proof import is_fork_proof, links_of
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.forks import fork_with_held
from culm_models.bamboo_p2p.store import ForkProof, HeldEntry

_MAGIC: Final = b"culm bamboo 2\n"
_FORMER_MAGIC: Final = b"culm bamboo 1\n"
_ENTRY, _WITH_PAYLOAD, _PROOF, _END = b"e", b"p", b"f", b"."
_CHUNK_BYTES: Final = 256 * 1024
LINK_MISSING: Final = "bamboo_p2p.link_missing"
PAYLOAD_INVALID: Final = "bamboo_p2p.payload"
FORKED: Final = "bamboo_p2p.forked"
PROOF_BOGUS: Final = "bamboo_p2p.evidence"


@dataclass(slots=True)
class BundleImport:
    """Counts of an import: new and known entries and payloads, and refused items by code."""

    new_entries: int = 0
    known_entries: int = 0
    new_payloads: int = 0
    known_payloads: int = 0
    new_proofs: int = 0
    """Logs that a proof in the bundle shows to be forked."""
    known_proofs: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def export(
    store: FolderStore, file: BinaryIO, log: LogKey, *, start: int = 1, end: int | None = None, payloads: bool
) -> Iterator[int]:
    """Write the held entries of a range, their pools and optionally payloads. Yields each sequence number.

    If the log is known to be forked, the proof is written, too.
    """
    file.write(_MAGIC + store.flavour.name.encode() + b"\n")
    highest = store.highest_entry(log)
    last = min(end or highest, highest)
    numbers = set(store.held_between(log, start, last))
    for bound in (start, last):
        if bound:
            numbers.update(lower_pool(bound), upper_pool(bound))
    count = 0
    for seq_num in sorted(numbers):
        stored = store.entry(log, seq_num)
        if stored is None:
            continue
        has_payload = payloads and start <= seq_num <= last and store.has_payload(log, seq_num)
        file.write((_WITH_PAYLOAD if has_payload else _ENTRY) + len(stored.entry_bytes).to_bytes(4, "big"))
        file.write(stored.entry_bytes)
        if has_payload:
            size = stored.entry.payload_size
            file.write(size.to_bytes(8, "big"))
            for offset in range(0, size, _CHUNK_BYTES):
                file.write(store.read_payload(log, seq_num, offset, min(_CHUNK_BYTES, size - offset)))
        count += 1
        yield seq_num
    proof = store.fork_proof(log)
    if proof is not None:
        file.write(
            _PROOF + b"".join(len(entry_bytes).to_bytes(4, "big") + entry_bytes for entry_bytes in proof)
        )
        count += 1
    file.write(_END + count.to_bytes(8, "big"))


def import_bundle(store: FolderStore, file: BinaryIO, imported: BundleImport) -> Iterator[int]:
    """Import a bundle and count its items in `imported`. Yields sequence numbers (0: the entry is invalid).

    Call it in `store.exclusively()`. Raises `BundleError`; items before the error are kept.
    """
    if _take(file, len(_MAGIC)) not in (_MAGIC, _FORMER_MAGIC):
        raise BundleError("the file is no bundle of Bamboo logs", hint="`culm bamboo export` makes one")
    flavour = file.readline(16).strip().decode(errors="replace")
    if flavour != store.flavour.name:
        raise BundleError(
            f"the bundle has hashes of the flavour {flavour}, the folder of {store.flavour.name}",
            hint=f"import it into a folder made with --flavour {flavour}",
        )
    count = 0
    while (kind := _take(file, 1)) != _END:
        count += 1
        if kind not in (_ENTRY, _WITH_PAYLOAD, _PROOF):
            raise BundleError("the bundle is damaged: neither an entry nor the end")
        data = _take_entry(file, store)
        if kind == _PROOF:
            _take_in_proof(store, (data, _take_entry(file, store)), imported)
            continue
        payload_size = int.from_bytes(_take(file, 8), "big") if kind == _WITH_PAYLOAD else None
        chunks = _chunks(file, payload_size or 0)
        seq_num = _take_in(store, data, chunks if payload_size is not None else None, imported)
        for _ in chunks:
            pass
        yield seq_num
    if int.from_bytes(_take(file, 8), "big") != count:
        raise BundleError("the bundle is damaged: entries were lost from it")


def _take_in(store: FolderStore, data: bytes, payload: Iterable[bytes] | None, imported: BundleImport) -> int:
    try:
        entry = decode_entry(data, store.flavour)
        check_signature(data, entry)
    except BambooError as error:
        imported.refused[error.code] += 1
        return 0
    log: LogKey = (entry.public_key, entry.log_id)
    decoded = HeldEntry(entry, data, store.flavour.hash(data))
    known = store.entry(log, entry.seq_num)
    proof = fork_with_held(decoded, store)
    if proof is not None:
        store.put_fork_proof(log, proof)
        imported.refused[FORKED] += 1
        return entry.seq_num
    if known is not None:
        imported.known_entries += 1
    elif _links_lead_down(store, log, entry):
        store.put_entry(log, decoded)
        imported.new_entries += 1
    else:
        imported.refused[LINK_MISSING] += 1
        return entry.seq_num
    if payload is None:
        return entry.seq_num
    if store.has_payload(log, entry.seq_num):
        imported.known_payloads += 1
        return entry.seq_num
    store.discard_unverified(log, entry.seq_num)
    offset = 0
    for chunk in payload:
        if offset + len(chunk) > entry.payload_size:
            break
        store.put_unverified(log, entry.seq_num, offset, chunk)
        offset += len(chunk)
    if store.verify_payload(log, entry.seq_num):
        imported.new_payloads += 1
    else:
        imported.refused[PAYLOAD_INVALID] += 1
    return entry.seq_num


def _take_entry(file: BinaryIO, store: FolderStore) -> bytes:
    size = int.from_bytes(_take(file, 4), "big")
    if size > max_entry_size(store.flavour):
        raise BundleError(f"the bundle is damaged: no entry has {size} bytes")
    return _take(file, size)


def _take_in_proof(store: FolderStore, proof: ForkProof, imported: BundleImport) -> None:
    """Store a fork proof if it is valid: two entries by one author that cannot be of one log (R25)."""
    entries: list[Entry] = []
    try:
        for data in proof:
            entries.append(decode_entry(data, store.flavour))
            check_signature(data, entries[-1])
    except BambooError as error:
        imported.refused[error.code] += 1
        return
    first, second = entries
    log: LogKey = (first.public_key, first.log_id)
    hashes = [store.flavour.hash(data) for data in proof]
    if (second.public_key, second.log_id) != log or not is_fork_proof(first, hashes[0], second, hashes[1]):
        imported.refused[PROOF_BOGUS] += 1
    elif store.fork_proof(log) is not None:
        imported.known_proofs += 1
    else:
        store.put_fork_proof(log, proof)
        imported.new_proofs += 1


def _links_lead_down(store: FolderStore, log: LogKey, entry: Entry) -> bool:
    """Whether the lipmaalink's target is held with the named hash: then a verified path leads to entry 1."""
    if entry.seq_num == 1:
        return True
    target = store.entry(log, lipmaa(entry.seq_num))
    return target is not None and links_of(entry)[lipmaa(entry.seq_num)] == target.hash


def _take(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise BundleError("the bundle ends too early", hint="copy it again; what it has is kept")
    return data


def _chunks(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        chunk = _take(file, min(size, _CHUNK_BYTES))
        size -= len(chunk)
        yield chunk
