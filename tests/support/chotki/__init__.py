"""Chotki in tests.

- `edge`: a store and a producer for connections of an edge, without Kafka.
- `job`: the job `chotki` without Spark and Kafka.
- `bridge`: the job `chotki` without Spark, between real topics.
- `state`: `chotki.state` as a log without Kafka.
- `state_feed`: `chotki.state` in memory, and a reader that is fed from it.
- `seeded`: a state that another replica has written.
- `programs`: the changes of a program, to a replica, over the job and to an export.
- `shell`: command lines of `culm chotki` against a broker.
- `pipeline`: the whole pipeline in one process, in virtual time.
"""
