"""Kafka for the jobs: `topics` is Spark's source and sink, `watch` monitors whether Kafka answers."""
