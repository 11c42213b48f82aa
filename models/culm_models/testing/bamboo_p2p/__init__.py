"""Ends of Bamboo Point-2-Point under random orders, splits and delays, chosen by a seed.

`node` is a driver around a peer, which counts what goes out against what was asked for, `simulator` a row of
them that propose, adjust, cancel, publish and send parts of one signed log, over channels that are delayed
independently.
"""
