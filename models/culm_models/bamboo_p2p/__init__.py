"""Bamboo Point-2-Point, the generation of 2019-10: partial replication of Bamboo logs between two ends.

`wire` is the bytes of both channels, `errors` why a connection ends and why a call is refused.
"""
