"""Culm's edge: QUIC connections to peers on one side, Kafka on the other, and a local index between them.

| module | what it holds |
|---|---|
| transport | QUIC behind a small interface: proven peer ids, credit, bounded writes |
| index | the local copy of replicated logs, in lmdb |
| kafka | producing and consuming from an event loop |
| p2panda | the driver of the p2panda protocol: many connections, one sans-I/O peer |
| connector | the connector process: peers on one side, topics on the other |
| parts | what a connector is put together from |
| intake | what a connector reads from Kafka, from its start on |
| service | who is served, where, and what they may ask for |
| peer | the reference peer: its own logs, synchronised with any peer or connector |
| synchronisation | one catching up of the reference peer: progress and end |
| authoring, interchange | writing operations to logs; logs as text |
| settings, transport_settings, keyfile | what a process is told, and its key |
| checking | signatures, in threads |
| access | which peers may connect, and for which schemas |
| limits | token buckets |
| metrics, health | what a process counts, for Prometheus; whether it is alive and ready |
| watch | the allow-list, reloaded |
"""
