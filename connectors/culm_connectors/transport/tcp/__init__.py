"""TCP, and TLS over TCP, as channels.

- `settings`: limits, and the files of TLS. `tls`: TLS 1.3 without a socket, with the half close of TCP.
- `channel`: one connection as a `ByteChannel`. `listener` is called; `dial` calls.
"""
