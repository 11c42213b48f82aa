"""p2panda at the edge: one sans-I/O peer driven over many QUIC connections.

| module | what it holds |
|---|---|
| driver | reads, checks, applies and writes for every connection of one peer |
| sessions | what is known of each connection: its limits, queues and what was delivered |
| settings | the numbers of the driver |
| metrics | what the driver counts |
"""
