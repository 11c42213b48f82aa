"""The bytes of Bamboo Point-2-Point.

`messages` is what is said on either channel, `control` and `data` are their bytes, `setup` the first bytes
of a connection, `numbers` how a message is read from the front of bytes that may end anywhere.
"""
