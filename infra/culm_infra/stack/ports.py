"""Free ports of the loopback interface, for servers that keep their ports over restarts.

A port is free if nobody listens on it by TCP or by UDP: a connector serves QUIC and TCP on one number.
"""

from __future__ import annotations

import random
import socket

from culm_infra.stack.errors import StackPortError

HOST = "127.0.0.1"

# Below the range that systems use for outgoing ports, so that a port which was free at the first start is
# still free at the next.
_FIRST, _LAST = 20_000, 29_999
_ATTEMPTS = 200
# A server may bind its port only long after it was chosen.
_given: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server could listen on the port now, by TCP and by UDP."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_STREAM) as tcp,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp,
    ):
        # As the JVM does: lingering connections of an earlier server do not count.
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tcp.bind((HOST, port))
            udp.bind((HOST, port))
        except OSError:
            return False
    return True


def answers(port: int, *, timeout_s: float = 0.2) -> bool:
    """Whether a server accepts connections on the port."""
    try:
        with socket.create_connection((HOST, port), timeout=timeout_s):
            return True
    except OSError:
        return False


def free_ports(count: int) -> list[int]:
    """Return free ports not returned by this process before. Raises `StackPortError` if there are too few."""
    chooser = random.SystemRandom()
    ports: list[int] = []
    for port in (chooser.randint(_FIRST, _LAST) for _ in range(_ATTEMPTS * count)):
        if len(ports) < count and port not in _given and is_free(port):
            ports.append(port)
            _given.add(port)
    if len(ports) < count:
        raise StackPortError(f"no free port was found on {HOST}", hint="end programs that hold ports")
    return ports
