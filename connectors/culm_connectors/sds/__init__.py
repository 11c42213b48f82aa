"""SDS at the edge: channels over QUIC between participants and Kafka (docs/sds.md).

- `protocol`: SDS as a protocol of a connector; `access`: the channels that a key may join.
- `driver`, `link`: the connections that a connector serves. `budgets`: limits per key.
- `channels/`: the channels that its connections have joined. Records for Kafka wait in `link`.
- `backbone`: the interface to storage and exchange; `kafka_backbone` implements it with Kafka.
- `history/`: the past of channels, and the search for missing messages.
- `participants/`: the other end of a connection. `settings`, `metrics`, `errors`.
"""
