"""p2panda in tests.

- `logs`: logs of documents, entry by entry.
- `histories`: histories of documents by many authors, and indexes of former formats.
- `log_topic`: a topic `logs` on the real broker, with records.
- `logs_job`: the job `logs` without Spark.
- `coverage_job`: the job `coverage` without Spark.
- `peers`: peers in memory, and what they send to each other.
- `vectors`: the test vectors of p2panda.
- `node_store`: the databases of p2panda nodes, compared.
- `node_edge`: an index whose entries are arranged for a model of a p2panda node.
- `aquadoggo`: the node aquadoggo as a process.
"""
