"""What readers of topics share.

- `consumer`: the shell of `LogConsumer` and the others: iteration, `poll`, `stop` and `close`.
- `batch`: what a client has fetched, sorted out, for readers of every kind.
- `partitions`: some partitions from given offsets on; `whole_topic`: a topic as it stands, to its end of now.
- `offsets`: where a partition begins and ends; `topic_watch`: whether the topic is still the same.
- `broker_errors`: which errors pass by themselves.
"""
