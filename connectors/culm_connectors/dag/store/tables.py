"""The tables of a folder of DAGs, and the opening of its database, with one format number."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from culm_connectors.dag.errors import DagFolderError
from culm_connectors.dag.store.spools import count_received
from culm_connectors.dag.store.waiting import fill_waiting
from culm_connectors.local_store.sqlite_file import opening_database

DATABASE_FILE: Final = "dag.sqlite"
SHARDS: Final = "shards"
SPOOLS: Final = "spools"
FORMAT: Final = 3
_APPLICATION_ID: Final = 0x43444147
_BUSY_TIMEOUT_S: Final = 30.0

BUILDS, NEEDS = range(2)
"""Kinds of links between nodes: BUILDS names a prior or fork, NEEDS an origin or proof."""

_SCHEMA: Final = """
CREATE TABLE nodes (
    node INTEGER PRIMARY KEY, cid BLOB NOT NULL UNIQUE, kind TEXT NOT NULL, block BLOB NOT NULL
);
CREATE TABLE links (
    named BLOB NOT NULL, child INTEGER NOT NULL, how INTEGER NOT NULL, PRIMARY KEY (named, child, how)
) WITHOUT ROWID;
CREATE INDEX links_of ON links (child);
CREATE TABLE places (
    space BLOB NOT NULL, node INTEGER NOT NULL, is_head INTEGER NOT NULL, PRIMARY KEY (space, node)
) WITHOUT ROWID;
CREATE INDEX places_of ON places (node);
CREATE INDEX heads ON places (space) WHERE is_head = 1;
CREATE TABLE names (shard BLOB NOT NULL, node INTEGER NOT NULL, PRIMARY KEY (shard, node)) WITHOUT ROWID;
CREATE INDEX names_of ON names (node);
CREATE TABLE publishes (
    node INTEGER PRIMARY KEY, id BLOB NOT NULL, is_authorised INTEGER NOT NULL, in_order INTEGER NOT NULL
);
CREATE INDEX publishes_of ON publishes (id);
CREATE TABLE receipts (
    node INTEGER NOT NULL, received_at INTEGER NOT NULL, PRIMARY KEY (node, received_at)
) WITHOUT ROWID;
CREATE TABLE refused (refusal INTEGER PRIMARY KEY, cid BLOB NOT NULL UNIQUE, code TEXT NOT NULL);
CREATE TABLE shards (shard INTEGER PRIMARY KEY, cid BLOB NOT NULL UNIQUE, size INTEGER NOT NULL);
CREATE TABLE shard_places (
    space BLOB NOT NULL, shard BLOB NOT NULL, PRIMARY KEY (space, shard)
) WITHOUT ROWID;
CREATE TABLE blocks (
    cid BLOB NOT NULL, shard INTEGER NOT NULL, offset INTEGER NOT NULL, length INTEGER NOT NULL,
    PRIMARY KEY (cid, shard)
) WITHOUT ROWID;
CREATE TABLE spools (
    spool INTEGER PRIMARY KEY, peer BLOB NOT NULL, cid BLOB NOT NULL, size INTEGER NOT NULL,
    space BLOB NOT NULL, bits BLOB NOT NULL, touched_at INTEGER NOT NULL, UNIQUE (peer, cid)
);
CREATE TABLE blocked (key BLOB PRIMARY KEY, reason TEXT NOT NULL);
"""
"""CIDs are bytes, `named` too; ids and spaces have 32 bytes.

`bits` of a spool are its chunks, low bits first.
"""

_SCHEMA_2: Final = """
CREATE TABLE missing (space BLOB NOT NULL, named BLOB NOT NULL, PRIMARY KEY (space, named)) WITHOUT ROWID;
CREATE INDEX missing_named ON missing (named);
CREATE TABLE lacks (named BLOB NOT NULL, child INTEGER NOT NULL, PRIMARY KEY (named, child)) WITHOUT ROWID;
CREATE INDEX lacks_of ON lacks (child);
"""
"""Since format 2: missing CIDs, and the nodes that wait for them."""

_SCHEMA_3: Final = """
DROP TABLE IF EXISTS waiting;
DROP TABLE IF EXISTS waiting_counts;
CREATE TABLE waiting (
    node INTEGER PRIMARY KEY, space BLOB NOT NULL, address TEXT NOT NULL, peer BLOB NOT NULL,
    size INTEGER NOT NULL, since INTEGER NOT NULL
);
CREATE INDEX waiting_of_space ON waiting (space, address);
CREATE INDEX waiting_of_address ON waiting (address, peer);
CREATE INDEX waiting_since ON waiting (since);
CREATE TABLE waiting_counts (
    of INTEGER NOT NULL, who NOT NULL, nodes INTEGER NOT NULL, bytes INTEGER NOT NULL,
    PRIMARY KEY (of, who)
) WITHOUT ROWID;
ALTER TABLE spools ADD COLUMN address TEXT NOT NULL DEFAULT '';
ALTER TABLE spools ADD COLUMN received INTEGER NOT NULL DEFAULT 0;
"""
"""Since format 3: places of waiting nodes, and bytes received of spools. Empty bytes stand for no space."""


@contextmanager
def open_database(folder: Path, *, create: bool) -> Iterator[sqlite3.Connection]:
    """Open the database of a folder; it is closed if an error occurs within the context.

    With `create`, a missing database is created. Raises `DagFolderError`.
    """
    path = folder / DATABASE_FILE
    if not create and not path.exists():
        raise DagFolderError(f"{folder} holds no DAGs", hint="put, sync or import into it first")
    with opening_database(path, _BUSY_TIMEOUT_S, DagFolderError) as database:
        for subfolder in (folder / SHARDS, folder / SPOOLS):
            subfolder.mkdir(exist_ok=True, mode=0o700)
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version < FORMAT:
            database.execute("BEGIN IMMEDIATE")
            version = _upgrade(database, database.execute("PRAGMA user_version").fetchone()[0])
            database.execute("COMMIT")
        if version != FORMAT:
            raise DagFolderError(
                f"{path} has the format {version}, and this program reads {FORMAT}", hint="use a newer Culm"
            )
        yield database


def _upgrade(database: sqlite3.Connection, version: int) -> int:
    """Create the tables of a new database, or those that an older one is missing; returns its new format."""
    if version >= FORMAT:
        return version
    for format, schema in enumerate((_SCHEMA, _SCHEMA_2, _SCHEMA_3), start=1):
        for statement in schema.split(";") if version < format else ():
            database.execute(statement)
    if version == 1:
        fill_waiting(database)
    count_received(database)
    database.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
    database.execute(f"PRAGMA user_version = {FORMAT}")
    return FORMAT
