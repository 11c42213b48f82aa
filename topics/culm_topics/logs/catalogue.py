"""Topics of replicated logs: received entries, the logs, refused data, and the holdings of peers."""

from culm_topics.topic_spec import DEFAULT_PARTITIONS, JobSpec, TopicSpec, compacted, kept, kept_for

LOGS: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="entries",
        key="log key (40 or 41 bytes)",
        records=("culm_topics.logs.records:EntryRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(7),
        writers=("connector",),
        readers=("connector", "operator"),
        doc=(
            "Entries that connectors received and validated, with their origin. Entries may repeat, "
            "and sequence numbers may jump."
        ),
    ),
    TopicSpec(
        name="logs",
        key="log key (40 or 41 bytes)",
        records=("culm_topics.logs.records:LogRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="keep",
        config=kept(),
        readers=("consumer", "connector", "operator"),
        doc=(
            "The replicated logs: verified entries, each log in sequence order. A batch that is "
            "retried may repeat records."
        ),
    ),
    TopicSpec(
        name="rejected",
        key="log key (40 or 41 bytes) or CID, or empty if neither is known",
        records=("culm_topics.records:RejectedRecord",),
        partitions=1,
        partitioned=False,
        cleanup="time",
        config=kept_for(30),
        writers=("connector",),
        readers=("operator",),
        doc=(
            "Rejected data with a stable code and its origin. For a fork it contains both entries, as proof. "
            "`culm rejected` lists, shows and replays the records."
        ),
    ),
    TopicSpec(
        name="receipts",
        key="peer id (32 bytes)",
        records=("culm_topics.logs.records:ReceiptRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(7),
        writers=("connector",),
        readers=("operator",),
        doc=(
            "Entries that a peer is known to hold, from its own messages or because they were "
            "delivered to it."
        ),
    ),
    TopicSpec(
        name="version-vectors",
        key="peer id, then log key (72 bytes)",
        records=("culm_topics.logs.records:VersionVectorRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "operator"),
        doc=(
            "The highest sequence number that each peer holds of each log. Rows under the all-zero "
            "peer id are the log heights."
        ),
    ),
    TopicSpec(
        name="blocks",
        key="kind, block bits, block, schema id (see below)",
        records=(
            "culm_topics.logs.records:BlockSummary",
            "culm_topics.logs.records:BlockHeights",
            "culm_topics.logs.records:BlockProgress",
        ),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "operator"),
        doc=(
            "The log heights of each schema and block of public keys, with their fingerprints and the "
            "input that they include."
        ),
    ),
    TopicSpec(
        name="block-vectors",
        key="kind, block bits, block, peer id (see `blocks`)",
        records=(
            "culm_topics.logs.records:BlockSummary",
            "culm_topics.logs.records:BlockHeights",
            "culm_topics.logs.records:BlockProgress",
        ),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "operator"),
        doc="The version vector of each peer and block. The records are those of `blocks`.",
    ),
    TopicSpec(
        name="fragments",
        key="log key, then sequence number (48 or 49 bytes)",
        records=("culm_topics.logs.records:FragmentRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("connector",),
        readers=("consumer", "connector", "operator"),
        doc="Verified entries behind a gap, until their log reaches them. Partitioned by log (see Keys).",
    ),
    TopicSpec(
        name="payloads",
        key="payload hash, then number of the chunk (38 or 70 bytes)",
        records=("culm_topics.logs.records:PayloadChunkRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("connector",),
        readers=("consumer", "connector", "operator"),
        doc=(
            "Verified payloads that are not in the record of their entry, in chunks. Partitioned by "
            "payload (see Keys)."
        ),
    ),
    TopicSpec(
        name="holdings",
        key="peer id (32 bytes)",
        records=("culm_topics.logs.records:HoldingRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(7),
        writers=("connector",),
        readers=("connector", "operator"),
        doc=(
            "Changes of what a peer holds of a log: entries and payloads that it has, and payloads "
            "that it has dropped."
        ),
    ),
    TopicSpec(
        name="coverage",
        key="peer id, then log key (72 or 73 bytes)",
        records=("culm_topics.logs.records:CoverageRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("consumer", "connector", "operator"),
        doc=(
            "The entries and payloads that each peer holds of each log. Rows under the all-zero peer "
            "id describe the deployment."
        ),
    ),
)

LOG_JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="logs",
        reads=("entries",),
        writes=("logs", "rejected"),
        load="culm_streaming.logs.job:JOB",
        doc="validates entries and puts each log in order, without gaps or repeats",
    ),
    JobSpec(
        name="version-vectors",
        reads=("logs", "receipts"),
        writes=("version-vectors", "rejected"),
        load="culm_streaming.version_vectors:JOB",
        doc="keeps the highest sequence number of each log that each peer holds",
    ),
    JobSpec(
        name="blocks",
        reads=("logs", "receipts"),
        writes=("blocks", "block-vectors", "rejected"),
        load="culm_streaming.blocks.job:JOB",
        doc="keeps the heights and fingerprints of logs by schema and block of public keys",
    ),
    JobSpec(
        name="coverage",
        reads=("logs", "fragments", "payloads", "holdings"),
        writes=("coverage", "rejected"),
        load="culm_streaming.coverage.job:JOB",
        doc=(
            "keeps the sets of entries and payloads that each peer holds of each log, and which "
            "entries they prove"
        ),
        group="coverage",
    ),
)
