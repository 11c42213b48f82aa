"""For whoever writes a peer, a driver or a store: what Culm's own tests are made of. No I/O, no clock.

`simulation` is the loop that drives nodes of any protocol in virtual time, over a network whose faults follow
from a seed; `errors` is what a run raises. A folder a protocol: `p2panda`, `sds`, `chotki`, `bamboo_p2p`,
`dag`, each with the same names: `node` is a driver around one of the protocol's machines, `scenario` says
what a run is like, `simulator` is a run of many nodes and its checks.
"""
