"""Sessions on a link, and the messages around them (p2panda replication 1 and 2).

A `link` is the protocol with one remote. A `session` is the state machine of one exchange. `table` holds the
sessions of a link, and the state that the links of one peer share. `lifecycle` begins and ends sessions.
`announcement` has the announcements of both sides. `requests` chooses the sessions that serve a local
request. `remote_requests` answers the remote's, and keeps those that wait for our announcement. `auto_sync`
decides on automatic sessions.
`remote_heights` holds a remote's heights. `outbox` queues data for a remote and knows the logs that it is not
sent in full.
"""
