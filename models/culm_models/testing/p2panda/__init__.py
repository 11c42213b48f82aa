"""Peers of p2panda under faults.

`logs` writes signed logs, `node` is a driver around one `Peer`, `liar` is the remote that does what it wants,
`simulator` writes, breaks and lets it end, `scenario` says how the peers are set, what they write
and what must hold of their stores.
"""
