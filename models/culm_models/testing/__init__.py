"""Simulations for tests of peers, drivers and stores; Culm's own tests use them. No I/O, no clock.

`simulation` is the loop that drives nodes of any protocol in virtual time, over a network whose faults follow
from a seed. `errors` has the errors of a run. Each protocol has a folder (`p2panda`, `sds`, `chotki`,
`bamboo_p2p`, `dag`) with the same names: `node` is a driver around one of the protocol's state machines,
`scenario` describes a run, and `simulator` is a run of many nodes and its checks.
"""
