"""The allow-list in force: what is written to its file counts a moment later, without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection
from pathlib import Path

from culm_connectors.edge.access import ALLOW_EVERYBODY, AccessError, AccessList, Rules, load_access_list

logger = logging.getLogger(__name__)


class AccessWatch:
    """Holds the rules in force and reads them again. Without a file everybody may have everything.

    Raises AccessError where the file cannot be read at the start; later a wrong file leaves them as they are.
    """

    def __init__(self, path: Path | None, tables: Collection[str], interval_s: float) -> None:
        self._path = path
        self._tables = tables
        self._interval_s = interval_s
        self._asked = asyncio.Event()
        self.current: AccessList = ALLOW_EVERYBODY if path is None else load_access_list(path, tables)

    def rules(self, table: str) -> Rules:
        """The rules of one protocol as they are now."""
        return self.current.rules(table)

    def reload(self) -> None:
        """Read the file again now."""
        self._asked.set()

    async def run(self, changed: Callable[[AccessList], None]) -> None:
        """Read the file whenever it has changed, for ever; `changed` is called with the former rules."""
        path = self._path
        if path is None:
            return
        seen = _signature(path)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._asked.wait()
            found = _signature(path)
            if found == seen and not self._asked.is_set():
                continue
            self._asked.clear()
            seen = found
            try:
                access = await asyncio.to_thread(load_access_list, path, self._tables)
            except AccessError as error:
                logger.error("the allow-list stays as it was: %s", error)
                continue
            former, self.current = self.current, access
            changed(former)
            rows = sum(len(rules.principals) for rules in access.tables.values())
            logger.info("the allow-list was read again: %d rules", rows)


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
