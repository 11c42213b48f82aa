"""Rows of an export as a reader gets them, and what they are compared with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    """The rows that count, by `_id`, as a reader gets them who joins the schemas of all files."""
    files = sorted(folder.rglob("*.parquet"))
    schema = pa.unify_schemas([pq.read_schema(one) for one in files] + [pa.schema([("epoch", pa.int32())])])
    part = ds.partitioning(pa.schema([("epoch", pa.int32())]), flavor="hive")
    table = ds.dataset(folder, schema=schema, partitioning=part, format="parquet").to_table()
    found: dict[str, dict[str, Any]] = {}
    for row in sorted(table.to_pylist(), key=lambda one: one["epoch"]):
        found[row.pop("_id")] = row
    return found


def element(**given: Any) -> dict[str, Any]:
    return {**dict.fromkeys("first"), **given}
