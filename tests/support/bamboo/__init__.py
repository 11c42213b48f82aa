"""Bamboo in tests.

- `edge`: connectors over a broker, peers that call them, `culm bamboo` as processes.
- `brokerless`: an edge whose topics are in memory.
- `hand_made`: hand-made ends of Bamboo Point-2-Point over real connections.
- `bare_logs`: logs whose payloads are not operations.
- `blocks`: records of the topic `blocks`.
- `blocks_job`: the job `blocks` without Spark.
- `waiting`: waits for the store of a peer.
"""
