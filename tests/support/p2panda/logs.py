"""Logs for tests: an author's document, entry by entry."""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.bamboo import lipmaa, needs_skiplink, sign_entry
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry, encode_operation

SCHEMA = "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b"
OTHER_SCHEMA = "event_0020b177ec1bf26dfb3b7010d473e6d44713b29b765b99c6e60ecbfae742de496543"


def author(name: str) -> KeyPair:
    """The same key pair for the same name."""
    return KeyPair.generate(f"author {name} of Culm's tests, at least 32 bytes".encode())


def make_log(
    key_pair: KeyPair,
    log_id: int,
    length: int,
    *,
    schema_id: str = SCHEMA,
    text: str = "n",
    after: list[CheckedOperation] | None = None,
) -> list[CheckedOperation]:
    """Entries of one document: a create, then updates; `after` continues a log (or forks one)."""
    return list(_entries(key_pair, log_id, length, schema_id, text, list(after or [])))


def _entries(
    key_pair: KeyPair, log_id: int, length: int, schema_id: str, text: str, log: list[CheckedOperation]
) -> Iterator[CheckedOperation]:
    for _ in range(length):
        seq_num = len(log) + 1
        backlink = log[-1].hash if log else None
        operation = encode_operation(
            "update" if backlink else "create",
            schema_id,
            previous=(backlink,) if backlink else None,
            fields={"name": f"{text}{seq_num}"},
        )
        entry = sign_entry(
            key_pair,
            log_id,
            seq_num,
            operation,
            skiplink=log[lipmaa(seq_num) - 1].hash if needs_skiplink(seq_num) else None,
            backlink=backlink,
        )
        checked = check_entry(entry, operation)
        log.append(checked)
        yield checked


def pairs(log: list[CheckedOperation]) -> list[tuple[bytes, bytes]]:
    """(entry bytes, operation bytes) of a log."""
    return [(checked.entry_bytes, checked.payload_bytes) for checked in log]
