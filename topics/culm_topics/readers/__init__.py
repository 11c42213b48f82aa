"""What readers of topics share.

- `consumer`: the shell of `LogConsumer` and the others: iteration, `poll`, `stop` and `close`.
- `batch`: what a client has fetched, sorted out, for readers of every kind.
- `partitions`: where partitions begin and end, some from given offsets on, and a topic as it stands, to its
  end of now.
- `topic_watch`: whether the topic is still the same.
- `broker_errors`: which errors pass by themselves.
"""
