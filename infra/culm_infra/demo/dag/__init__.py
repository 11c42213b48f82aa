"""The demo of DAG replication: writers who are seldom connected, two edges, and one order everywhere.

- ``size``: how large it is.
- ``stage``: Kafka, and a deployment for each policy: topics, two connectors and the job.
- ``writer``: who writes, over QUIC, and files made from a seed; ``door``: who writes by HTTP.
- ``stranger``: publishes that nobody may make.
- ``run``: the story chapter by chapter, under each policy.
- ``witnesses``: what each replica and the topics say of order, tip and heads, and of what was refused.
"""
