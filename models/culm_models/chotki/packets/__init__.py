"""Packets as they are on the wire.

`packet` is the form of every packet, with P and B. `handshake` is H, `parcels` are D and V, `live` are C, O,
E and Y.
"""
