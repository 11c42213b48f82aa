"""The number of files and sockets that a process may have open: each connection over TCP is one of them."""

from __future__ import annotations

import logging
import resource
from typing import Final

logger = logging.getLogger(__name__)

ENOUGH: Final = 4_096
"""Sum of the default limits of TCP and HTTP connections, with what stores and Kafka's clients open."""


def allow_open_files() -> int:
    """Raise the soft limit of this process to the hard one, and warn if that is little; returns the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError) as error:
            logger.warning("the limit of open files stays at %d: %s", soft, error)
    if soft != resource.RLIM_INFINITY and soft < ENOUGH:
        logger.warning(
            "this process may have %d files and sockets open: raise `ulimit -n` to %d, or lower the limits "
            "of connections; the system refuses connections before these limits do",
            soft,
            ENOUGH,
        )
    return soft
