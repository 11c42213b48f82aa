"""The past of SDS channels, from Kafka and from other peers.

- `replay`: a channel's messages and events, page by page; `replay_limiter`: the turns to read them.
- `store_lookup`: single messages in the store; `retrieval`: the search for messages in it and at peers.
"""
