"""Free ports of the loopback interface, chosen once and then remembered."""

from __future__ import annotations

import random
import socket
from collections.abc import Container

HOST = "127.0.0.1"

# Below the range that systems take outgoing ports from, so that a port which was free at the first start
# is still free at the next.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 200


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the JVM does: connections of an earlier server that still linger do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int, *, timeout_s: float = 0.2) -> bool:
    """Whether something accepts connections on the port."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def choose(taken: Container[int] = ()) -> int | None:
    """A free port that is not in ``taken``; None when there seems to be none."""
    chooser = random.SystemRandom()
    for _ in range(_ATTEMPTS):
        port = chooser.randint(_FIRST, _LAST)
        if port not in taken and is_free(port):
            return port
    return None
