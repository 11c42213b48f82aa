"""Ends of Bamboo Point-2-Point under random orders, splits and delays, chosen by a seed.

`log` is one signed log to replicate, `node` a driver around a peer, `simulator` a row of them that propose,
adjust, cancel, publish and send, over channels that are delayed independently; `witness` counts what goes out
against what was asked for.
"""
