"""The past of SDS channels, out of Kafka and from other peers.

- `replay`: a channel's messages and events, page by page; `replay_limiter`: who may read them when.
- `store_lookup`: single messages in the store; `retrieval`: messages looked for in it and at peers.
"""
