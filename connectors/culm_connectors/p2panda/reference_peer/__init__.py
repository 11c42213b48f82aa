"""The reference peer: its own logs in its own store, synchronised over QUIC with any peer or connector.

`peer`; `authoring` (operations become signed entries), `sync_progress` (one synchronisation, to its end).
"""
