"""Helpers of the tests; no test is here. Each folder names its modules.

| folder | what it holds |
|---|---|
| process | processes that tests start, waiting with a deadline, damaged disks, random command lines |
| kafka | the real broker, clusters, topics written and read, a value of every record |
| spark | the Spark session, a Spark cluster, a job that does nothing |
| connectors | connectors as tasks, channels over every transport, QUIC with faults, HTTP requests |
| deployment | whole deployments as processes, their members, and the audit of what they exchanged |
| p2panda | logs and histories of documents, peers, vectors, the jobs `logs` and `coverage` without Spark |
| bamboo | peers of Bamboo Point-2-Point, bare logs, the job `blocks` without Spark |
| chotki | edges, programs and shells of Chotki, its job without Spark, the pipeline in virtual time |
| dag | edges and shells of DAG replication, its job without Spark |
| sds | edges and remotes of SDS, its job without Spark, the JavaScript implementation |
| hostile | attacks on every protocol, and honest pairs that work beside them |
| freeze | the fixtures in `tests/fixtures`: how they are made and compared |
"""
