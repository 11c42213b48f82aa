"""Connectors and channels in tests, of no protocol in particular.

- `edge`: connectors as tasks, and reference peers in folders.
- `context`: the context of a protocol, with little in it.
- `channels`: pairs of channels over every transport.
- `quic`: keys, quick settings, and a faulty network for QUIC.
- `http`: requests to an HTTP port of this machine.
"""
