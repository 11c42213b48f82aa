"""Peers of p2panda under faults.

`logs` writes signed logs. `node` is a driver around one `Peer`. `liar` is a remote that ignores all rules.
`simulator` writes entries, causes faults, and lets the run end. `scenario` has the peers' settings, the logs
that they write, and the checks of their stores.
"""
