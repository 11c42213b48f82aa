"""Bamboo Point-2-Point, the generation of 2019-10: partial replication of Bamboo logs between two ends.

`peer` is a store with any number of remotes, `connection` one of them: bytes of two channels go in and out.
`negotiation` is its control channel, `data_channel` the other, `requests` what they are about, `reactions`
what cancels lead to, and `link` what all of them share. `store` says what is asked of whoever keeps logs,
`forks` when what is held proves a fork, `memory_store` keeps them in memory. `wire` is the bytes,
`settings` what an end is told, `events` what it reports, `errors` why a connection ends.
"""
