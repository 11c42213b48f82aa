"""Indexes of earlier formats, as the programs of their time wrote them."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path

import lmdb

from culm_connectors.logs.index import layout
from culm_models.p2panda.operations.operation import CheckedOperation, check_entry

_FIXTURES = Path(__file__).parents[1] / "connectors" / "logs" / "index_formats"


def write_index(folder: Path, found: int) -> list[CheckedOperation]:
    """Write every record of an index of format `found`; returns its entries, each log in its order.

    It has 16 logs; in format 1 there were 5 of them without a document.
    """
    fixture = json.loads((_FIXTURES / f"format_{found}.json").read_text())
    held = json.loads(zlib.decompress(base64.b64decode(fixture["records"])))
    folder.mkdir(parents=True, exist_ok=True)
    with lmdb.open(str(folder), max_dbs=16, map_size=1 << 24) as environment:
        for name, records in held.items():
            database = environment.open_db(name.encode())
            with environment.begin(write=True, db=database) as transaction:
                for key, value in records:
                    transaction.put(bytes.fromhex(key), bytes.fromhex(value))
    return [check_entry(*layout.unpack_entry(bytes.fromhex(value))) for _, value in held["entries"]]
