"""Culm's edge: peers on one side, Kafka on the other, and a local index of replicated logs between them.

| module | what it holds |
|---|---|
| connector, protocols | the connector process, and the table of what it speaks |
| edge | what every protocol has around it: doors, access, rates, metrics, health |
| transport | connections and byte channels with bounds: QUIC, libp2p over it, TCP, TLS, memory |
| kafka | producing and consuming from an event loop |
| local_store | local state in lmdb: the file, trust, the thread that writes |
| logs | replicated logs: the hub, their topics, the local copy and its ranges, a warm start |
| p2panda, sds, chotki, bamboo_p2p, dag | the drivers of these protocols, their peers and participants |
| clock | time that no setting of the wall clock changes |
| settings, tls_files, url, errors | what a process is told, of TLS and of peers too; what can go wrong |
| open_files | how many files and sockets a process may have open |
| rate_limit | token buckets, least rates, and log lines at a bounded rate |
| metric_families | metrics from numbers that are kept elsewhere |
"""
