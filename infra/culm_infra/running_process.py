"""A process of this machine that serves a status socket: signals to it, and its end.

The kernel names the process at the other end of the socket, and a file descriptor stands for it, so a signal
never reaches another process that has taken its number.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from culm_infra.errors import InfraError
from culm_topics.status_socket import NothingRuns, StatusSocketError, is_served, read_status, serving_process


class NotSignalled(InfraError):
    """A process cannot be sent a signal from here."""

    code = "infra.not_signalled"


class RunningProcess:
    """A process that serves the status socket at a path; use `serving`."""

    def __init__(self, path: Path, pid: int, descriptor: int) -> None:
        self.path = path
        self.pid = pid
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def serving(cls, path: Path) -> Iterator[RunningProcess]:
        """Open the process that serves the socket.

        Raises `NothingRuns`, `StatusSocketError`, `NotSignalled`.
        """
        pid = serving_process(path)
        if not pid:
            raise NotSignalled(
                f"the process that serves {path} runs in another container",
                hint="run this command in that container",
            )
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError as error:
            raise NotSignalled(f"the process {pid} has just ended") from error
        try:
            # The number may have gone to another process before the descriptor was opened.
            if serving_process(path) != pid:
                raise NotSignalled(f"another process serves {path} now", hint="run the command again")
            yield cls(path, pid, descriptor)
        finally:
            os.close(descriptor)

    def status(self) -> dict[str, Any] | None:
        """Return the status document; None if the socket is closed. Raises `StatusSocketError`."""
        try:
            document = read_status(self.path)
            return document if serving_process(self.path) == self.pid else None
        except NothingRuns:  # its end may still take a while
            return None
        except StatusSocketError:
            # The socket may have closed while it answered.
            if self.has_ended(0.5) or not is_served(self.path):
                return None
            raise

    def send(self, number: signal.Signals) -> None:
        """Send a signal. Raises `NotSignalled`."""
        try:
            signal.pidfd_send_signal(self._descriptor, number)
        except ProcessLookupError as error:
            raise NotSignalled(f"the process {self.pid} has just ended") from error
        except PermissionError as error:
            raise NotSignalled(
                f"the process {self.pid} belongs to another user", hint="run this command as that user"
            ) from error

    def has_ended(self, timeout_s: float) -> bool:
        """Wait for the end of the process; returns whether it came in time."""
        return bool(select.select([self._descriptor], [], [], timeout_s)[0])
