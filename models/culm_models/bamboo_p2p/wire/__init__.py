"""The bytes of Bamboo Point-2-Point.

`messages` is what is said on either channel, `control` (with the first bytes of a connection) and `data` are
their bytes, `numbers` how a message is read from the front of bytes that may end anywhere.
"""
