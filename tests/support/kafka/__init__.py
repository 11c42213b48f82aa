"""Kafka in tests: always a real one.

- `broker`: the broker of a test run.
- `cluster`: a cluster of several brokers, open or secured.
- `topic_io`: records written to topics and read from them.
- `record_values`: values of every record of every topic, drawn by hypothesis.
"""
