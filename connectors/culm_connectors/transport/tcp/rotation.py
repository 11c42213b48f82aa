"""The context of TLS that new sessions begin with, made anew when one of its files has changed.

Sessions that live keep what they began with. Certificate and key are two files, replaced one after the other:
what does not fit together leaves the context as it was until it does.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from culm_connectors.transport.errors import IdentityError

logger = logging.getLogger(__name__)

_Signature = tuple[tuple[int, int, int] | None, ...]


class FollowedContext:
    """Holds a context and looks at its files whenever it is asked for it.

    Error: `IdentityError` where the files cannot be used at the start; later it is a line in the log, one for
    each change.
    """

    def __init__(self, make: Callable[[], ssl.SSLContext], files: Iterable[Path | None]) -> None:
        self._make = make
        self._files = tuple(file for file in files if file is not None)
        # Looked at before it is read: what changes meanwhile is another change.
        self._seen = self._signature()
        self._context = make()

    def current(self) -> ssl.SSLContext:
        """The context for a session that begins now."""
        found = self._signature()
        if found != self._seen:
            self._seen = found
            try:
                self._context = self._make()
            except IdentityError as error:
                logger.error("TLS goes on with the former files: %s", error)
            else:
                logger.info("the files of TLS were read again: %s", ", ".join(map(str, self._files)))
        return self._context

    def _signature(self) -> _Signature:
        return tuple(_look(file) for file in self._files)


def _look(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
