"""Entries of replicated logs in output and exports: as text, as JSON, as a row of Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from culm_infra.cli.kit.new_paths import new_path
from culm_infra.cli.kit.output import at
from culm_infra.errors import InfraError
from culm_models.conform.p2panda.messages import field_to_json
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import Operation, decode_operation
from culm_topics.logs.consumer import LogEntry

Write = Callable[["LogEntry"], None]
_BATCH_ROWS = 5_000


def as_json(entry: LogEntry) -> dict[str, Any]:
    """Return the entry as a JSON object; bytes become lower-case hex, fields carry their types.

    `action` is null if the payload is not an operation. For a bare log, `operation` is the payload if it is
    `inline`, and `sparse` is true if there are gaps before the entry.
    """
    operation = _operation(entry)
    shown: dict[str, Any] = {
        "public_key": entry.public_key.hex(),
        "log_id": entry.log_id,
        "seq_num": entry.seq_num,
        "hash": entry.hash.hex(),
        "schema_id": entry.schema_id,
        "action": None if operation is None else operation.action,
    }
    if operation is not None and operation.previous is not None:
        shown["previous"] = [identifier.hex() for identifier in operation.previous]
    if operation is not None and operation.fields is not None:
        shown["fields"] = {name: field_to_json(value) for name, value in operation.fields.items()}
    if entry.is_bare:
        shown |= {
            "flavour": entry.flavour.name,
            "sparse": entry.is_sparse,
            "inline": entry.payload is not None,
        }
    return {
        **shown,
        "entry": entry.entry_bytes.hex(),
        "operation": entry.operation_bytes.hex(),
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp_ms": entry.timestamp_ms,
    }


def as_text(entry: LogEntry) -> str:
    """Return the entry as one line for people (not escaped yet)."""
    if entry.is_bare:
        return _bare_as_text(entry)
    operation = _operation(entry)
    line = (
        f"{at(entry.timestamp_ms)}  {entry.public_key.hex()[:12]}…  log {entry.log_id}  #{entry.seq_num}  "
        f"{'?' if operation is None else operation.action:<6}  {_short_schema(entry.schema_id)}"
    )
    if operation is None:
        return f"{line}  (the payload is no operation)"
    if operation.fields is None:
        return line
    fields = ", ".join(f"{name}: {_short(value)}" for name, value in operation.fields.items())
    return f"{line}  {{{fields}}}"


@contextmanager
def writer(path: Path, *, bare: bool = False) -> Iterator[Write]:
    """Write entries to `path`, as Parquet or JSON Lines by its suffix; `bare`: there may be bare logs.

    The file appears under its name once it is complete: an interrupted export leaves no file.
    """
    parquet = partial(_parquet, bare=bare)
    formats: dict[str, Callable[[Path], AbstractContextManager[Write]]]
    formats = {".jsonl": _json_lines, ".ndjson": _json_lines, ".parquet": parquet}
    if path.suffix not in formats:
        raise InfraError(
            f"{path.name}: the file extension does not determine the format",
            hint=f"let the file end in {', '.join(formats)}",
        )
    if not path.parent.is_dir():
        raise InfraError(f"{path.parent} is not a directory", hint="create it first")
    with new_path(path, replaces_file=True) as unfinished, formats[path.suffix](unfinished) as write:
        yield write


@contextmanager
def _json_lines(path: Path) -> Iterator[Write]:
    with path.open("w", encoding="utf-8") as file:

        def write(entry: LogEntry) -> None:
            file.write(json.dumps(as_json(entry), ensure_ascii=False) + "\n")

        yield write


@contextmanager
def _parquet(path: Path, *, bare: bool) -> Iterator[Write]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("public_key", pa.binary(32)),
            ("log_id", pa.uint64()),
            ("seq_num", pa.uint64()),
            ("hash", pa.binary() if bare else pa.binary(34)),
            ("schema_id", pa.string()),
            ("action", pa.string()),
            ("previous", pa.list_(pa.binary(34))),
            ("fields", pa.string()),
            ("entry", pa.binary()),
            ("operation", pa.binary()),
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", tz="UTC")),
            *((("flavour", pa.string()), ("sparse", pa.bool_()), ("inline", pa.bool_())) if bare else ()),
        ]
    )
    rows: list[dict[str, Any]] = []
    with pq.ParquetWriter(path, schema, compression="zstd") as file:

        def flush() -> None:
            file.write_table(pa.Table.from_pylist(rows, schema=schema))
            rows.clear()

        def write(entry: LogEntry) -> None:
            rows.append(_row(entry) | (_bare_columns(entry) if bare else {}))
            if len(rows) >= _BATCH_ROWS:
                flush()

        yield write
        if rows:
            flush()


def _row(entry: LogEntry) -> dict[str, Any]:
    shown = as_json(entry)
    operation = _operation(entry)
    return {
        "public_key": entry.public_key,
        "log_id": entry.log_id,
        "seq_num": entry.seq_num,
        "hash": entry.hash,
        "schema_id": entry.schema_id,
        "action": shown["action"],
        "previous": None if operation is None else operation.previous,
        "fields": json.dumps(shown["fields"], ensure_ascii=False) if "fields" in shown else None,
        "entry": entry.entry_bytes,
        "operation": entry.operation_bytes,
        "partition": entry.partition,
        "offset": entry.offset,
        "timestamp": entry.timestamp_ms,
    }


def _bare_columns(entry: LogEntry) -> dict[str, Any]:
    return {
        "flavour": entry.flavour.name,
        "sparse": entry.is_sparse,
        "inline": not entry.is_bare or entry.payload is not None,
    }


def _operation(entry: LogEntry) -> Operation | None:
    """Return the payload's operation, or None for any other payload: one such entry must not hide the
    others.
    """
    if entry.is_bare:
        return None
    try:
        return decode_operation(entry.operation_bytes)
    except CulmError:
        return None


def _bare_as_text(entry: LogEntry) -> str:
    size = entry.entry().payload_size
    return (
        f"{at(entry.timestamp_ms)}  {entry.public_key.hex()[:12]}…  log {entry.log_id}  #{entry.seq_num}  "
        f"{entry.flavour.name}  {'with gaps before it, ' if entry.is_sparse else ''}payload of {size} bytes"
        f"{'' if entry.payload is not None else ', not beside it'}"
    )


def _short_schema(schema_id: str) -> str:
    return schema_id if len(schema_id) <= 32 else f"{schema_id[:31]}…"


def _short(value: object) -> str:
    if isinstance(value, bytes):
        return value.hex()[:16] + ("…" if len(value) > 8 else "")
    if isinstance(value, tuple):
        return f"[{len(value)}]"
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:59]}…"
