"""Kafka for the jobs.

`topics` is Spark's source and sink. `fetching` reads single records again. `watch` monitors whether Kafka
answers.
"""
