"""The demo of DAG replication: writers who are seldom connected, two edges, and one order everywhere.

- ``size``: how large it is.
- ``stage``: Kafka, and a deployment for each policy: topics, two connectors and the job.
- ``content``: files made from a seed, put into a folder; what comes back of them.
- ``writer``: who writes, over QUIC; ``door_client``: requests of HTTP; ``door_writer``: who writes by it.
- ``stranger``: publishes that nobody may make.
- ``story``: chapter by chapter, for one policy; ``run``: all of it.
- ``witnesses``: what each replica and the job's topics say of order, tip and heads.
- ``seen_in_kafka``: what the topics say of what was refused.
"""
