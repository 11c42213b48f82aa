"""Culm's edge: peers on one side, Kafka on the other, and a local index of replicated logs between them.

| module | contents |
|---|---|
| connector, protocols | the connector process, and the table of its protocols |
| edge | infrastructure of every protocol: doors, access, rates, metrics, health |
| transport | connections and byte channels with limits: QUIC, libp2p over it, TCP, TLS, memory |
| kafka | producing and consuming from an event loop |
| local_store | local state in lmdb: the file, trust, the thread that writes |
| logs | replicated logs: the hub, their topics, the local copy and its ranges, a warm start |
| p2panda, sds, chotki, bamboo_p2p, dag | the drivers of these protocols, their peers and participants |
| clock | a clock that ignores changes of the wall clock |
| followed_file | files that are read again while a connector runs, and when certificates expire |
| settings, tls_files, url, errors | settings of a connector, of TLS and of peers' addresses; errors |
| http_server | an HTTP server inside another program, with time limits on each connection |
| open_files | the limit of files and sockets that a process may have open |
| rate_limit | token buckets, minimum rates, and log lines at a bounded rate |
| metric_families | metrics from numbers that are kept elsewhere |
"""
