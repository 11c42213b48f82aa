"""The protocols: messages, codecs, rules and state machines, without I/O.

Bytes go in, bytes and events come out; time and randomness are arguments. Nothing here uses sockets, clocks,
threads, Kafka or Spark.

- `bamboo`: append-only logs: entries, hashes, links, signatures.
- `p2panda`: operations, schema ids, replication messages and sessions, up to a complete `Peer`.
- `sds`: reliable broadcast in channels, in three wire profiles, up to a complete `Channel`.
- `chotki`: typed fields that merge: values, packets, up to a complete replica.
- `bamboo_p2p`: Bamboo Point-2-Point: partial replication of logs over two channels, up to a complete `Peer`.
- `dag`: content-addressed graphs in shards, joined, and published under keys in a total order.
- `bymux`: two streams over one channel; `lzfoo`: the compression of payloads.
- `reconciliation`: set reconciliation by comparing ranges.
- `lifts`: fingerprints of sync ranges, which can be combined.
- `conform`: all protocols behind an interface with one JSON object per line.
- `testing`: nodes in virtual time, a network with faults, and checkers, for authors of drivers and peers.

Shared by the protocols: `varu64`, `varint`, `keys` (Ed25519), `cbor` (the strict codec), `errors` and
`events` (stable codes and kinds), `frozen` (frozen records that are built as fast as plain ones).
"""
