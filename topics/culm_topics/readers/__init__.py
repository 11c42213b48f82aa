"""Code that the readers of topics share.

- `consumer`: the base class of `LogConsumer` and the others: iteration, `poll`, `stop` and `close`.
- `batch`: sorts fetched records, offsets and errors, for readers of every kind.
- `partitions`: the bounds of partitions, reading partitions from given offsets, and reading a topic up to
  its present end.
- `at_offsets`: single records by their offsets.
- `state_consumer`: the base class of consumers of state, whose reader keeps a `cache_file`.
- `cache_file`: a local file with the contents of a topic, for state that may exceed the memory.
- `topic_watch`: whether the topic is still the same.
- `broker_errors`: the errors that pass by themselves.
"""
