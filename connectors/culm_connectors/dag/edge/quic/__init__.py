"""The door of an edge over QUIC (ALPN `culm/dag/1`).

- `door`: its connections; `peer_view`: what of the folder they see; `tokens`: UCANs that are shown on them
- `budgeted_stream`: what a key sends, as fast as it may
"""
