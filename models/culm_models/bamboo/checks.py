"""Checks of an entry by itself, and of its links to its log (Bamboo, "entry verification").

An entry is checked by itself for its form, its signature, and the hash of its payload. The content of the
payload is checked by its owner, with a function of the bytes that returns facts or raises. Only `check_links`
needs the log. All functions are pure, so that connectors can call them in threads and streaming jobs in
workers, with the same results. Verifying the signature takes most of the time and releases the interpreter
lock.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from blake3 import blake3

from culm_models import keys
from culm_models.bamboo import errors
from culm_models.bamboo.entry import Entry, decode_entry, lipmaa
from culm_models.bamboo.hashes import PREFIX, YASMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.frozen import unfrozen


class PayloadFacts(Protocol):
    """The facts that the payload's owner has read from it."""

    @property
    def schema_id(self) -> str:
        """The schema of the payload; "" if payloads have no schema."""
        ...

    @property
    def previous(self) -> tuple[bytes, ...] | None:
        """Hashes of the entries that the payload follows in its document; None if it creates a document."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether the payload deletes its document."""
        ...


Facts = TypeVar("Facts", bound=PayloadFacts)
Facts_co = TypeVar("Facts_co", bound=PayloadFacts, covariant=True)


@dataclass(frozen=True, slots=True)
class CheckedEntry(Generic[Facts_co]):
    """An entry that was checked by itself, with its payload. `hash` (34 bytes) is the entry's id."""

    entry: Entry
    entry_bytes: bytes
    payload_bytes: bytes
    hash: bytes
    facts: Facts_co

    @property
    def schema_id(self) -> str:
        """The schema of the payload; "" if payloads have no schema."""
        return self.facts.schema_id

    @property
    def log(self) -> LogKey:
        """Public key and log id, which name the log."""
        return self.entry.public_key, self.entry.log_id

    @property
    def size_bytes(self) -> int:
        """Size of the entry and its payload, in bytes."""
        return len(self.entry_bytes) + len(self.payload_bytes)


SoundEntry = CheckedEntry[PayloadFacts]
"""A checked entry with any kind of payload."""

_UnfrozenCheckedEntry = unfrozen(CheckedEntry)


def check_entry(
    entry_bytes: bytes,
    payload_bytes: bytes,
    read_facts: Callable[[bytes], Facts],
    *,
    verify_signature: bool = True,
) -> CheckedEntry[Facts]:
    """Check an entry by itself. Returns it with the facts of its payload.

    Raises `BambooError` and the errors of `read_facts`. Cheap checks come first.
    """
    checked = _check_contents(entry_bytes, payload_bytes, read_facts)
    if verify_signature:
        check_signature(entry_bytes, checked.entry)
    return checked


def check_many(
    pairs: Iterable[tuple[bytes, bytes]],
    read_facts: Callable[[bytes], Facts],
    *,
    verify_signature: bool = True,
) -> list[CheckedEntry[Facts] | CulmError]:
    """Check pairs of entry bytes and payload bytes.

    Returns, in the same order, what `check_entry` returns or raises for each pair. All signatures are
    verified at the end: between the other checks, they would evict the interpreter from the processor's
    caches every time.
    """
    results: list[CheckedEntry[Facts] | CulmError] = []
    for entry_bytes, payload_bytes in pairs:
        try:
            results.append(_check_contents(entry_bytes, payload_bytes, read_facts))
        except CulmError as error:
            # A traceback would keep the frame, and so the bytes of the whole chunk, alive.
            results.append(error.with_traceback(None))
    if verify_signature:
        for index, result in enumerate(results):
            if isinstance(result, CheckedEntry):
                try:
                    check_signature(result.entry_bytes, result.entry)
                except CulmError as error:
                    results[index] = error.with_traceback(None)
    return results


def _check_contents(
    entry_bytes: bytes, payload_bytes: bytes, read_facts: Callable[[bytes], Facts]
) -> CheckedEntry[Facts]:
    entry = decode_entry(entry_bytes)
    # The right payload is recognised without a call. For any other, `check_payload` raises the error.
    if (
        len(payload_bytes) != entry.payload_size
        or PREFIX + blake3(payload_bytes).digest() != entry.payload_hash
    ):
        check_payload(entry, payload_bytes)
    facts = read_facts(payload_bytes)
    entry_hash = PREFIX + blake3(entry_bytes).digest()
    checked: CheckedEntry[Facts] = _UnfrozenCheckedEntry(entry, entry_bytes, payload_bytes, entry_hash, facts)
    checked.__class__ = CheckedEntry
    return checked


def check_signature(entry_bytes: bytes, entry: Entry) -> None:
    """Verify the author's signature over `entry_bytes`; `entry` is their decoded form.

    Raises `SignatureError`.
    """
    signed = entry_bytes[: -keys.SIGNATURE_SIZE]
    if not keys.verify(entry.public_key, entry.signature, signed):
        raise errors.SignatureError(
            f"entry {entry.seq_num} in log {entry.log_id} is not signed by {entry.public_key.hex()}"
        )


def check_payload(entry: Entry, payload: bytes, flavour: HashFlavour = YASMF) -> None:
    """Check that `payload` is the one that the entry names.

    Raises `PayloadSizeError` or `PayloadHashError`.
    """
    if len(payload) != entry.payload_size:
        raise errors.PayloadSizeError(
            f"entry {entry.seq_num} states {entry.payload_size} bytes, the payload has {len(payload)}"
        )
    if flavour.hash(payload) != entry.payload_hash:
        raise errors.PayloadHashError(f"the payload is not the one that entry {entry.seq_num} names")


def check_links(
    entry: Entry, *, hash_at: Callable[[int], bytes | None], end_of_log_at: int | None = None
) -> None:
    """Check that both links of `entry` name the entries that are held. Raises `BambooError`.

    `hash_at` returns the hash of the held entry with a sequence number in the same log, or None.
    `end_of_log_at` is the sequence number of the entry that ended the log, if there is one. The unknown-link
    errors are temporary, the others are permanent. Forks are detected by the caller, which knows the hash of
    this entry and of the entry held in its place.
    """
    if end_of_log_at is not None and entry.seq_num > end_of_log_at:
        raise errors.AfterEndOfLogError(f"entry {entry.seq_num} follows the end of its log, {end_of_log_at}")
    if entry.seq_num == 1:
        return
    linked_hash = hash_at(entry.seq_num - 1)
    if linked_hash is None:
        raise errors.BacklinkUnknownError(f"entry {entry.seq_num - 1} is not held")
    if linked_hash != entry.backlink:
        raise errors.BacklinkMismatchError(f"the backlink of entry {entry.seq_num} names another entry")
    if entry.skiplink is None:
        return
    target = lipmaa(entry.seq_num)
    linked_hash = hash_at(target)
    if linked_hash is None:
        raise errors.SkiplinkUnknownError(f"entry {target} is not held")
    if linked_hash != entry.skiplink:
        raise errors.SkiplinkMismatchError(
            f"the skiplink of entry {entry.seq_num} does not name the entry {target} that is held"
        )
