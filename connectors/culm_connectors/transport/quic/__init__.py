"""QUIC behind the transport's interface; the only folder that knows the library (aioquic, pinned exactly).

- `listener`: the accepting side; `admission`: whom it hears out at all. `dial`: the calling side.
- `connection`, `streams`: the interface on top of the library; `pump`: its datagrams and timer;
  `endpoint`: the UDP socket; `turns`: which connection is read next; `liveness`: whether the remote is there.
- `library`, `bounds`, `path_mtu`: the modules that know the inside of the library;
  `configuration`: what it is told.
- `probe`: how fast a bare stream is on this machine.
"""
