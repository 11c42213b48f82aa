"""Status sockets of the jobs on this machine: where a process opens its own, and those that are served."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

from culm_infra.settings import CulmSettings, stack_directory
from culm_topics.status_socket import (
    Document,
    NothingRuns,
    StatusSocketError,
    is_served,
    read_status,
    status_socket,
)

_FOLDER: Final = "run"


def deployment_name(settings: CulmSettings) -> str:
    """Return the prefix as part of a file name."""
    return settings.prefix.strip(".") or "no-prefix"


def socket_directory(settings: CulmSettings) -> Path:
    """Return the directory of the status sockets of jobs, below the stack's directory."""
    return stack_directory(settings) / _FOLDER


def job_sockets(settings: CulmSettings) -> list[Path]:
    """Return the paths of the status sockets of jobs, also of processes that were killed."""
    return sorted(socket_directory(settings).glob("job-*.sock"))


def job_socket(settings: CulmSettings, which: str, document: Document) -> AbstractContextManager[bool]:
    """Serve the status of a process that runs a job or group, while the context is open.

    A second process with the same prefix and choice of jobs has its process id in the socket's name.
    """
    name = f"job-{deployment_name(settings)}-{which}"
    path = socket_directory(settings) / f"{name}.sock"
    with suppress(StatusSocketError):  # `status_socket` meets the same obstacle, and logs it
        if is_served(path):
            path = path.with_name(f"{name}-{os.getpid()}.sock")
    return status_socket(path, document)


def running_jobs(settings: CulmSettings) -> Iterator[dict[str, Any]]:
    """Yield the status documents of all processes that run jobs beside this stack.

    Raises `StatusSocketError` if one of them does not answer.
    """
    for path in job_sockets(settings):
        try:
            yield read_status(path)
        except NothingRuns:
            continue  # its process was killed
