"""What is on the wire.

`packet` is the form of every packet, with P and B. `handshake` is H, `parcels` are D and V, `live` C, O, E
and Y.
"""
