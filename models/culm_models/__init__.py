"""The protocols themselves: messages, codecs, rules and state machines, without any I/O.

Bytes go in, bytes and events come out; time and randomness are arguments. Nothing here knows a socket, a
clock, a thread, Kafka or Spark.

- `bamboo`: append-only logs: entries, hashes, links, signatures.
- `p2panda`: operations, schema ids, replication messages and sessions, and the whole `Peer`.
- `sds`: reliable broadcast in channels, in three wire profiles, and the whole `Channel`.
- `chotki`: typed fields that merge: values, packets, and the whole replica.
- `bamboo_p2p`: Bamboo Point-2-Point: partial replication of logs over two channels, and the whole `Peer`.
- `dag`: content-addressed graphs in shards that join, published under keys in one order.
- `bymux`: two channels over one; `lzfoo`: the compression of payloads.
- `reconciliation`: sets compared range by range.
- `lifts`: items of a sync range as fingerprints that can be combined.
- `conform`: all of it behind one JSON object a line.
- `testing`: for whoever writes a driver or a peer: nodes in virtual time, a network with faults, checkers.

What the protocols share: `varu64`, `varint`, `keys` (Ed25519), `cbor` (the one strict
door), `errors` and `events` (stable codes and kinds), `frozen` (records at the price of plain ones).
"""
