"""The reference peer: its own logs in its own store, synchronised over QUIC with any peer or connector.

`peer`; `authoring` (operations become signed entries), `field_texts` (their fields as a person writes them),
`documents` (what the store's operations amount to), `sync_progress` (one synchronisation, to its end).
"""
