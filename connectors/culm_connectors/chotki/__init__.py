"""Chotki at the edge: sessions with replicas, and the local store that their diffs are answered from.

| module | what it holds |
|---|---|
| protocol | what a connector runs: doors, tasks, readiness |
| driver | the connections, whom we call, follow-up syncs after each epoch |
| dial | the channel of a session, over TCP, TLS or QUIC |
| connection, host | one session over a byte channel, and the replica that all sessions belong to |
| publisher | what a connection brings, on its way into Kafka |
| storage_limits | how large fields and vectors may become, checked before anything is produced |
| spool | what waits on disk: diffs that are not whole, what Kafka is too slow for |
| feed | what peers are sent beyond their diffs: the tail of live packets, syncs of later epochs |
| warnings | what is not as it should be and refuses nothing, and who is told |
| local_state | the merged state in lmdb, brought from epoch to epoch by what Kafka has |
| sources | the edge's own source, and whose it is |
| settings, metrics, errors | what an edge is told, what is measured, what goes wrong |
| budgets | what one principal may use |
| reference_peer | a replica in memory that speaks over channels |
"""
