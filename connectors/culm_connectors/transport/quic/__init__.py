"""QUIC behind the transport's interface; the only folder that knows the library (aioquic, pinned exactly).

- `listener`: the accepting side; `admission`: its handling of first datagrams. `dial`: the dialling side.
- `connection`, `streams`: the interface on top of the library; `pump`: its datagrams and timer;
  `endpoint`: the UDP socket; `turns`: fair reading; `liveness`: detection of a vanished remote.
- `library`, `bounds`, `path_mtu`: the modules that know the library's internals;
  `configuration`: its configuration.
- `probe`: measures the throughput of a bare stream on this machine.
"""

from culm_connectors.transport.quic.dial import connect
from culm_connectors.transport.quic.listener import Listener, allow_everybody, serve, serve_all

__all__ = ["Listener", "allow_everybody", "connect", "serve", "serve_all"]
