"""What one entry shows by itself, and whether it continues its log (Bamboo, "entry verification").

By itself: its form, its signature, and that its payload is the one it names. What the payload says is its
owner's to judge, by a function of its bytes that gives facts or raises. `check_links` alone asks for the
log. Pure functions, so that connectors call them in threads and streaming jobs in workers, and both judge
alike. Verifying the signature takes most of the time and releases the interpreter lock.
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
    """What the payload's owner found in it."""

    @property
    def schema_id(self) -> str:
        """The schema of the payload; "" where payloads have none."""
        ...

    @property
    def previous(self) -> tuple[bytes, ...] | None:
        """The entries that the payload follows in its document, by hash; None where it creates one."""
        ...

    @property
    def deletes(self) -> bool:
        """Whether the payload deletes its document."""
        ...


Facts = TypeVar("Facts", bound=PayloadFacts)
Facts_co = TypeVar("Facts_co", bound=PayloadFacts, covariant=True)


@dataclass(frozen=True, slots=True)
class CheckedEntry(Generic[Facts_co]):
    """An entry that stands by itself, with its payload. `hash` (34 bytes) is the entry's identifier."""

    entry: Entry
    entry_bytes: bytes
    payload_bytes: bytes
    hash: bytes
    facts: Facts_co

    @property
    def schema_id(self) -> str:
        """The schema of the payload; "" where payloads have none."""
        return self.facts.schema_id

    @property
    def log(self) -> LogKey:
        """Public key and log id: what names the log."""
        return self.entry.public_key, self.entry.log_id

    @property
    def size_bytes(self) -> int:
        """The bytes of the entry and its payload."""
        return len(self.entry_bytes) + len(self.payload_bytes)


SoundEntry = CheckedEntry[PayloadFacts]
"""An entry that was checked, whoever owns its payload."""

_UnfrozenCheckedEntry = unfrozen(CheckedEntry)


def check_entry(
    entry_bytes: bytes,
    payload_bytes: bytes,
    read_facts: Callable[[bytes], Facts],
    *,
    verify_signature: bool = True,
) -> CheckedEntry[Facts]:
    """The entry with the facts of its payload.

    Raises `BambooError` and what `read_facts` raises, cheap checks first.
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
    """Check each (entry bytes, payload bytes): in order, the checked entry or the error that refuses it.

    Each result is what `check_entry` gives or raises. The signatures come last, all in a row: in between,
    they would push the interpreter out of the processor's caches every time.
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
    # The right payload is told apart without a call; what is wrong with another, `check_payload` says.
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
    """Raise `SignatureError` unless the author signed `entry_bytes`, of which `entry` is the decoded form."""
    signed = entry_bytes[: -keys.SIGNATURE_SIZE]
    if not keys.verify(entry.public_key, entry.signature, signed):
        raise errors.SignatureError(
            f"entry {entry.seq_num} in log {entry.log_id} is not signed by {entry.public_key.hex()}"
        )


def check_payload(entry: Entry, payload: bytes, flavour: HashFlavour = YASMF) -> None:
    """Raise `PayloadSizeError` or `PayloadHashError` unless `payload` is what the entry commits to."""
    if len(payload) != entry.payload_size:
        raise errors.PayloadSizeError(
            f"entry {entry.seq_num} states {entry.payload_size} bytes, the payload has {len(payload)}"
        )
    if flavour.hash(payload) != entry.payload_hash:
        raise errors.PayloadHashError(f"the payload is not the one that entry {entry.seq_num} names")


def check_links(
    entry: Entry, *, hash_at: Callable[[int], bytes | None], end_of_log_at: int | None = None
) -> None:
    """Raise unless both links of `entry` name the entries that are held.

    `hash_at` gives the hash of the held entry of the same log with that sequence number, or None;
    `end_of_log_at` is the sequence number of the entry that ended the log, if one did. The unknown-link
    errors mean "too early", the others "never". A fork is the caller's to see: it alone knows the hash
    of this entry and of the one held in its place.
    """
    if end_of_log_at is not None and entry.seq_num > end_of_log_at:
        raise errors.AfterEndOfLogError(f"entry {entry.seq_num} follows the end of its log, {end_of_log_at}")
    if entry.seq_num == 1:
        return
    held = hash_at(entry.seq_num - 1)
    if held is None:
        raise errors.BacklinkUnknownError(f"entry {entry.seq_num - 1} is not held")
    if held != entry.backlink:
        raise errors.BacklinkMismatchError(f"the backlink of entry {entry.seq_num} names another entry")
    if entry.skiplink is None:
        return
    target = lipmaa(entry.seq_num)
    held = hash_at(target)
    if held is None:
        raise errors.SkiplinkUnknownError(f"entry {target} is not held")
    if held != entry.skiplink:
        raise errors.SkiplinkMismatchError(
            f"the skiplink of entry {entry.seq_num} does not name the entry {target} that is held"
        )
