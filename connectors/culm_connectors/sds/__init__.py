"""SDS at the edge: channels over QUIC between participants and Kafka (docs/sds.md).

- `protocol`: SDS as a protocol of a connector; `access`: who may join which channel.
- `driver`, `link`: the connections that a connector serves. `budgets`: what one key may use.
- `channels/`: what its connections have joined. Records on their way into Kafka wait in `link`.
- `backbone`: what the driver asks of what lies behind it; `kafka_backbone` answers it from Kafka.
- `history/`: the past of channels, and messages looked for.
- `participants/`: the other end of a connection. `settings`, `metrics`, `errors`.
"""
