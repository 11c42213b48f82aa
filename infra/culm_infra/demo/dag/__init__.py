"""The demo of DAG replication: writers that are rarely connected, two edges, and one order everywhere.

- ``size``: the options of the demo.
- ``stage``: Kafka, and a deployment for each policy: topics, two connectors and the job.
- ``writer``: a writer over QUIC, and files made from a seed; ``door``: a writer over HTTP.
- ``invalid_publishes``: publishes without a right.
- ``run``: the story chapter by chapter, under each policy.
- ``statements``: order, tip and heads at each replica and in the topics, and the refusals.
"""
