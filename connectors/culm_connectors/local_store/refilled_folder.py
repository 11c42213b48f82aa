"""A folder in SQLite that is filled from topics: of these topics, or refused; damaged, and then made anew."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from culm_connectors.errors import ConnectorError
from culm_connectors.local_store.topic_offsets import TopicOffsets
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)

Opened = TypeVar("Opened")


def open_or_refill(folder: Path, open_once: Callable[[], Opened], error: type[ConnectorError]) -> Opened:
    """What `open_once` opens; a damaged folder is dropped, to be read from Kafka.

    `error` is how a folder of this kind is refused; one whose cause is damage in the database tells of that.
    """
    try:
        return open_once()
    except (sqlite3.DatabaseError, error, RecordError) as refused:
        if not _is_damage(refused.__cause__ if isinstance(refused, error) else refused):
            raise
        logger.error("%s is damaged (%s): it is dropped, and filled from the topics again", folder, refused)
        shutil.rmtree(folder)
        return open_once()


def _is_damage(cause: BaseException | None) -> bool:
    """Whether it is the database's own contents that are wrong: a full disk is not that."""
    if isinstance(cause, sqlite3.OperationalError):
        return False
    return isinstance(cause, sqlite3.DatabaseError | RecordError)


def begin_from(
    folder: Path, offsets: TopicOffsets, origin: Origin, error: type[ConnectorError], *, export: str
) -> None:
    """See that a folder was filled from these topics, or is new, and is theirs from now on.

    Raises `error`: it belongs to other topics, or to a newer Culm. `export` is the command that takes
    out what it holds.
    """
    found = offsets.origin()
    if found is None:
        offsets.make_tables(origin)
        return
    number, former = found
    if number != offsets.tables_format:
        raise error(
            f"{folder} has the format {number} of edges, and this program reads {offsets.tables_format}"
        )
    if changed := former.differences(origin):
        raise error(
            f"{folder} belongs to other topics: {'; '.join(changed)}",
            hint="give the connector another folder; what this one holds may be taken from it with "
            f"`{export}`",
        )
