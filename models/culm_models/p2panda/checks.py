"""Everything that one entry and its operation show by themselves, checked together.

Form, signature, payload size and hash, and that the payload is an operation: what needs neither the log
nor the document. Pure functions, so that connectors call them in threads and streaming jobs in workers,
and both judge alike. Verifying the signature takes most of the time and releases the interpreter lock.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from blake3 import blake3

from culm_models.bamboo.entry import Entry, decode_entry
from culm_models.bamboo.signing import check_payload
from culm_models.bamboo.signing import verify_signature as verify_entry_signature
from culm_models.errors import CulmError
from culm_models.frozen import unfrozen
from culm_models.p2panda.operation import Action, peek
from culm_models.yasmf import PREFIX


@dataclass(frozen=True, slots=True)
class CheckedEntry:
    """An entry that stands by itself. `hash` (34 bytes) is the entry's and its operation's identifier."""

    entry: Entry
    entry_bytes: bytes
    operation_bytes: bytes
    hash: bytes
    schema_id: str
    action: Action
    previous: tuple[bytes, ...] | None

    @property
    def log(self) -> tuple[bytes, int]:
        """Public key and log id: what names the log."""
        return self.entry.public_key, self.entry.log_id

    @property
    def size_bytes(self) -> int:
        """The bytes of the entry and its operation."""
        return len(self.entry_bytes) + len(self.operation_bytes)


_UnfrozenCheckedEntry = unfrozen(CheckedEntry)


def check_entry(entry_bytes: bytes, operation_bytes: bytes, *, verify_signature: bool = True) -> CheckedEntry:
    """The entry with what its operation says. Raises `BambooError` or `P2pandaError`, cheap checks first."""
    checked = _check_contents(entry_bytes, operation_bytes)
    if verify_signature:
        verify_entry_signature(entry_bytes, checked.entry)
    return checked


def check_many(
    pairs: Iterable[tuple[bytes, bytes]], *, verify_signature: bool = True
) -> list[CheckedEntry | CulmError]:
    """Check each (entry bytes, operation bytes): in order, the checked entry or the error that refuses it.

    Each result is what `check_entry` gives or raises. The signatures come last, all in a row: in between,
    they would push the interpreter out of the processor's caches every time.
    """
    results: list[CheckedEntry | CulmError] = []
    for entry_bytes, operation_bytes in pairs:
        try:
            results.append(_check_contents(entry_bytes, operation_bytes))
        except CulmError as error:
            # A traceback would keep the frame, and so the bytes of the whole chunk, alive.
            results.append(error.with_traceback(None))
    if verify_signature:
        for index, result in enumerate(results):
            if isinstance(result, CheckedEntry):
                try:
                    verify_entry_signature(result.entry_bytes, result.entry)
                except CulmError as error:
                    results[index] = error.with_traceback(None)
    return results


def _check_contents(entry_bytes: bytes, operation_bytes: bytes) -> CheckedEntry:
    entry = decode_entry(entry_bytes)
    # The right payload is told apart without a call; what is wrong with another, `check_payload` says.
    if (
        len(operation_bytes) != entry.payload_size
        or PREFIX + blake3(operation_bytes).digest() != entry.payload_hash
    ):
        check_payload(entry, operation_bytes)
    action, schema, previous = peek(operation_bytes)
    entry_hash = PREFIX + blake3(entry_bytes).digest()
    checked: CheckedEntry = _UnfrozenCheckedEntry(
        entry, entry_bytes, operation_bytes, entry_hash, schema, action, previous
    )
    checked.__class__ = CheckedEntry
    return checked
