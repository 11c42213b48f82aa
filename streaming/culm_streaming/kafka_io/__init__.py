"""Kafka for the jobs: `topics` is Spark's source and sink, `watch` tells whether it answers, `positions` how
far they have read."""
