"""TCP, and TLS over TCP, as channels.

- `settings`: limits. `tls`: TLS without a socket, with the half close of TCP, and its files, which are read
  again when they have changed.
- `channel`: one connection as a `ByteChannel`. `listener`: the accepting side; `dial`: the dialling side.
"""
