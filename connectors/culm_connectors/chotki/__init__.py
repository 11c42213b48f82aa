"""Chotki at the edge: sessions with replicas, and the local store that their diffs are answered from.

| module | content |
|---|---|
| protocol | the protocol as a connector runs it: doors, tasks, readiness |
| driver | the connections, the replicas to call, follow-up syncs after each epoch |
| dial | the channel of a session, over TCP, TLS or QUIC |
| connection, host | one session over a byte channel, and the replica that all sessions belong to |
| publisher | produces the packets and syncs of a connection to Kafka |
| storage_limits | limits of fields and vectors, checked before anything is produced |
| spool | data that waits on disk: incomplete diffs, data that waits for Kafka |
| feed | data that peers are sent after their diffs: the tail of live packets, syncs of later epochs |
| warnings | problems for which nothing is refused, and the reports about sessions |
| local_state | the merged state in lmdb, advanced epoch by epoch from Kafka |
| sources | the edge's own source, and its claim |
| settings, metrics, errors | settings, metrics and errors of an edge |
| budgets | limits of one principal |
| reference_peer | a replica in memory with real connections |
"""
