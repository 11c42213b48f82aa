"""The reader for programs that consume the replicated logs from Kafka.

    from culm_topics.logs.consumer import LogConsumer

    with LogConsumer("127.0.0.1:9092", group_id="culm.my-program", state_dir="state") as consumer:
        for entry in consumer:
            handle(entry.public_key, entry.log_id, entry.seq_num, entry.operation_bytes)

- `log_consumer`: `LogConsumer` itself.
- `entry`: the selection of logs, and the entries that are handed out.
- `heights`: how far each log has been read, and records that arrived before their predecessors.
- `snapshot`: the heights on disk, so that a restart need not read the topic again.
- `problems`: skipped records, and logs set aside for a missing entry.
- `sparse`: the reader's position in a log, also beyond gaps; `fragments`: the topic of that name.
- `holes`: when a missing entry counts as a gap.
- `reader`: the Kafka side: fetches records, commits positions.
- `rebalance`: partitions that are assigned to this member of a group or revoked.
- `commits`: when positions are committed, and retries while the group moves.
- `sequencer`: the order of the logs, without Kafka.
- `assignment`: the start of each partition, the records before it, and whether all is read.
"""

from culm_topics.logs.consumer.commits import AutoCommit
from culm_topics.logs.consumer.entry import LogEntry, RebuildProgress, Selection
from culm_topics.logs.consumer.log_consumer import LogConsumer
from culm_topics.logs.consumer.problems import LogProblem
from culm_topics.logs.consumer.sparse import LogCoverage, LogPosition

__all__ = [
    "AutoCommit",
    "LogConsumer",
    "LogCoverage",
    "LogEntry",
    "LogPosition",
    "LogProblem",
    "RebuildProgress",
    "Selection",
]
