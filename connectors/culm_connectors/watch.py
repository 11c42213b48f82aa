"""Watches the allow-list's file: what is written there is in force a moment later, without a restart."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from pathlib import Path

from culm_connectors.access import AccessError, AccessList, load_access_list

logger = logging.getLogger(__name__)


async def watch_access_list(
    path: Path, apply: Callable[[AccessList], None], asked: asyncio.Event, interval_s: float
) -> None:
    """Load the file whenever it changed or `asked` is set; a wrong file leaves the old rules in force."""
    seen = _signature(path)
    while True:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(interval_s):
                await asked.wait()
        found = _signature(path)
        if found == seen and not asked.is_set():
            continue
        asked.clear()
        seen = found
        try:
            access = await asyncio.to_thread(load_access_list, path)
        except AccessError as error:
            logger.error("the allow-list stays as it was: %s", error)
            continue
        apply(access)
        logger.info("the allow-list was read again: %d peers", len(access.peers))


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
