"""Records of `rejected` as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from culm_infra.cli.kit.output import at, safe
from culm_infra.rejections.records import BYTES
from culm_topics.records import MAX_REJECTED_DETAIL

if TYPE_CHECKING:
    from culm_infra.rejections.records import Rejection

_LINE_LIMIT: Final = 4_000


def row_of(rejection: Rejection) -> dict[str, Any]:
    """Return a record as a JSON object, with the sizes of its bytes."""
    record = rejection.record
    return {
        "partition": rejection.partition,
        "offset": rejection.offset,
        "timestamp_ms": rejection.timestamp_ms,
        "code": record.code,
        "protocol": rejection.protocol,
        "topic": rejection.topic,
        "source": source_row_of(rejection),
        "peer": record.brought_by,
        "key": rejection.key,
        "seq_num": record.seq_num,
        "detail": record.detail,
        **{f"{name}_bytes": _size(getattr(record, name)) for name in BYTES},
    }


def source_row_of(rejection: Rejection) -> dict[str, Any] | None:
    """Return the position of the refused record as a JSON object; None if it is not known."""
    source = rejection.record.source
    return None if source is None else dict(zip(("topic", "partition", "offset"), source, strict=True))


def whole_row_of(rejection: Rejection, decoded: dict[str, Any]) -> dict[str, Any]:
    """Return a record as a JSON object, with its bytes as hex and their decoded forms."""
    items = {name: getattr(rejection.record, name) for name in BYTES}
    return {**row_of(rejection), **items, "decoded": decoded}


def line_of(rejection: Rejection) -> str:
    """Return a record as one line for people (escaped)."""
    record = rejection.record
    peer = "" if record.brought_by is None else f"{record.brought_by.hex()[:12]}…"
    return "  ".join(
        (
            at(rejection.timestamp_ms),
            safe(f"{rejection.place:<8}"),
            safe(f"{record.code:<28}"),
            safe(f"{rejection.topic or f'({rejection.protocol})':<16}"),
            f"{peer:<13}",
            safe(record.detail, MAX_REJECTED_DETAIL),
        )
    ).rstrip()


def lines_of(rejection: Rejection, decoded: dict[str, Any]) -> Iterator[str]:
    """Yield a whole record as lines for people (escaped)."""
    record = rejection.record
    source = record.source
    known: dict[str, object | None] = {
        "record": rejection.place,
        "time": f"{at(rejection.timestamp_ms)} UTC",
        "code": record.code,
        "detail": record.detail,
        "protocol": rejection.protocol,
        "origin": None if source is None else f"{source[0]} partition {source[1]} offset {source[2]}",
        "peer": None if record.brought_by is None else record.brought_by.hex(),
        "key": rejection.key.hex() or None,
        "log": rejection.log,
        "number": record.seq_num,
    }
    for label, value in known.items():
        yield f"{label:<10} {'not known' if value is None else safe(value, MAX_REJECTED_DETAIL)}"
    for name in BYTES:
        data = getattr(record, name)
        if data is None:
            yield f"{name:<10} not kept"
            continue
        yield f"{name:<10} {len(data)} bytes"
        yield f"  {data.hex()}"
    for name, forms in decoded.items():
        for form, value in forms.items():
            yield safe(f"{name} as {form}:")
            text = json.dumps(value, ensure_ascii=False, indent=2, default=str)
            yield from (f"  {safe(line, _LINE_LIMIT)}" for line in text.splitlines())


def _size(data: bytes | None) -> int | None:
    return None if data is None else len(data)
