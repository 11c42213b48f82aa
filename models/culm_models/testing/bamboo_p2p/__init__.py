"""Ends of Bamboo Point-2-Point under random orders, splits and delays, chosen by a seed.

`node` is a driver around a peer, which compares the sent data with what was requested. `simulator` is a row
of such nodes that propose, adjust, cancel, publish and send parts of one signed log, over channels that are
delayed independently.
"""
