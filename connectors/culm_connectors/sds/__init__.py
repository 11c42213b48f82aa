"""SDS at the edge: channels over QUIC between participants and Kafka (docs/sds.md).

- `frames`, `wire`, `errors`: what is said on a connection, and its bytes
"""
