"""Bamboo Point-2-Point, the generation of 2019-10: partial replication of Bamboo logs between two ends.

`peer`: a store with any number of remotes. `connection`: one connection, with the bytes of two channels.
`negotiation`: the control channel. `data_channel/`: the data channel. `requests/`: the requests on both.
`reactions`: reactions to cancels. `link`: the state that these share. `store`: the interface of log stores.
`memory_store`: a store in memory. `forks`: detection of forks. `wire/`: encoding of messages. `settings`,
`events`, `errors`: settings of an end, its reports, and the reasons for which a connection ends.
"""
