"""Opens a SQLite folder that is filled from topics: it is trusted, refused, or set aside and recreated."""

from __future__ import annotations

import logging
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from culm_connectors.errors import ConnectorError
from culm_connectors.local_store.store_guard import store_failure
from culm_connectors.local_store.topic_offsets import TopicOffsets
from culm_topics.errors import RecordError
from culm_topics.kafka.origin import Origin

logger = logging.getLogger(__name__)

_CONDEMNED = "condemned"
_DAMAGED_SUFFIX = ".damaged"

Opened = TypeVar("Opened")


def open_or_refill(folder: Path, open_once: Callable[[], Opened], error: type[ConnectorError]) -> Opened:
    """Return what `open_once` opens; a damaged folder is set aside and filled from Kafka again.

    `error` is the error with which a folder of this kind is refused; if its cause is damage in the database,
    the folder counts as damaged. Raises `StoreFull`: the folder cannot be written.
    """
    if (folder / _CONDEMNED).exists():
        _set_aside(folder, "its last user met damage in it")
    try:
        return open_once()
    except (sqlite3.DatabaseError, OSError, error, RecordError) as refused:
        cause = refused.__cause__ if isinstance(refused, error) else refused
        if not _is_damage(cause):
            if cause is not None and (failure := store_failure(folder, cause)) is not None:
                raise failure from refused
            raise
        _set_aside(folder, str(refused))
        return open_once()


def condemn_folder(folder: Path) -> None:
    """Make the next opening set the folder aside, because damage was found after it had been opened."""
    try:
        (folder / _CONDEMNED).touch()
    except OSError as error:
        logger.warning("%s is damaged and cannot be marked for the next start: %s", folder, error)


def _set_aside(folder: Path, reason: str) -> None:
    """Move the database beside the folder, in place of one that was moved there before; remove the rest."""
    aside = folder.with_name(folder.name + _DAMAGED_SUFFIX)
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(mode=0o700)
    for path in folder.glob("*.sqlite*"):
        path.rename(aside / path.name)
    logger.error(
        "%s is damaged (%s): its database is now in %s, and the folder is filled from the topics again",
        folder,
        reason,
        aside,
    )
    shutil.rmtree(folder)


def _is_damage(cause: BaseException | None) -> bool:
    """Return whether the contents of the database are damaged; a full disk is no damage."""
    if isinstance(cause, sqlite3.OperationalError):
        return False
    return isinstance(cause, sqlite3.DatabaseError | RecordError)


def begin_from(
    folder: Path, offsets: TopicOffsets, origin: Origin, error: type[ConnectorError], *, export: str
) -> None:
    """Check that a folder was filled from these topics; a new folder is bound to them.

    Raises `error`: the folder belongs to other topics, or has another format. `export` is the command that
    exports its data.
    """
    stored_origin = offsets.origin()
    if stored_origin is None:
        offsets.make_tables(origin)
        return
    number, former = stored_origin
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
