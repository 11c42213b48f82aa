"""TCP, and TLS over TCP, as channels.

- `settings`: limits, and the files of TLS. `tls`: TLS without a socket, with the half close of TCP,
  and its files, read again when they have changed.
- `channel`: one connection as a `ByteChannel`. `listener` is called; `dial` calls.
"""
