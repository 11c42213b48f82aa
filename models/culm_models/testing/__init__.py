"""For whoever writes a peer, a driver or a store: what Culm's own tests are made of. No I/O, no clock.

A folder a protocol: `p2panda`, `sds`, `chotki`, `bamboo_p2p`, `dag`, each with the same names: `node` is a
driver around one of the protocol's machines, `scenario` says what a run is like, `simulator` runs many nodes
under faults chosen by a seed. `memory_link` is a connection in memory, `errors` is what a run raises.
"""
