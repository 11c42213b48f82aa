"""SDS at the edge: channels over QUIC between participants and Kafka (docs/sds.md).

- `frames`, `wire`, `errors`: what is said on a connection, and its bytes
- `driver`, `exchange`, `entering`, `sessions`, `rooms`: the connections that a connector serves, and the
  channels that they have joined; `budgets`, `turns`: what one key may use
- `staging`, `asking`, `heads`, `hosted_events`: records on their way into Kafka, messages looked for, the
  trailing edge, what clients of hosted participants are told
- `backbone`: what the driver asks of what lies behind it; `kafka_backbone` with `following`, `past` and
  `lookups`: that in Kafka
- `peer`, `participant`, `participant_state`: the reference full participant; `client`: the thin client of a
  hosted one; `calling`: their side of a connection
- `settings`, `metrics`
"""
