"""Kafka for the jobs: `topics` is Spark's source and sink, `watch` tells whether it answers."""
