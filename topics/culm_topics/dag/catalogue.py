"""Topics of DAG replication: records of connectors, and state derived by the job (reference 6).

Data named by a CID is in the partition of that CID (`culm_topics.dag.records.cid_partition`): `dag.shards`
and `dag.shard-index` have the same number of partitions. Data of a space or an id is partitioned by its whole
key.
"""

from culm_topics.topic_spec import DEFAULT_PARTITIONS, JobSpec, TopicSpec, compacted, kept, kept_for

DAG: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="dag.settings",
        key="`verdict`",
        value="a map (R28)",
        cddl="dag/cddl/dag-settings.cddl",
        partitions=1,
        partitioned=False,
        # The first record counts: compaction would keep the last one.
        cleanup="keep",
        config=kept(),
        writers=("connector", "operator"),
        readers=("connector", "consumer", "operator"),
        doc=(
            "Validation rules of the deployment, one map. The first record after the last tombstone "
            "applies. A process publishes its own rules if there are none, and does not start if its "
            "rules differ."
        ),
    ),
    TopicSpec(
        name="dag.nodes",
        key="space (32), then CID",
        records=("culm_topics.dag.records:NodeRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("connector", "operator"),
        readers=("connector", "consumer", "operator"),
        doc="Appends, joins and UCANs as received. Partitioned by CID (see Keys).",
    ),
    TopicSpec(
        name="dag.shards",
        key="shard CID, then offset (u64)",
        records=("culm_topics.dag.records:ShardChunkRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("connector", "operator"),
        readers=("connector", "consumer", "operator"),
        doc="Shards that were verified whole, in chunks of 917,504 bytes. Partitioned by shard (see Keys).",
    ),
    TopicSpec(
        name="dag.shard-index",
        key="shard CID, then part (u32)",
        records=("culm_topics.dag.records:ShardIndexRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("job", "operator"),
        readers=("connector", "consumer", "operator"),
        doc="The blocks of each shard with their offsets. Partitioned by shard (see Keys).",
    ),
    TopicSpec(
        name="dag.publishes",
        key="id (32)",
        records=("culm_topics.dag.records:PublishRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="keep",
        config=kept(),
        writers=("connector", "operator"),
        readers=("connector", "consumer", "operator"),
        doc=(
            "Publishes as received, including those that wait for others, with the time at which "
            "their proofs are validated. Records may repeat."
        ),
    ),
    TopicSpec(
        name="dag.blocked",
        key="shard CID, or space (32)",
        records=("culm_topics.dag.records:BlockedRecord",),
        partitions=1,
        partitioned=False,
        cleanup="compact",
        config=compacted(),
        writers=("operator",),
        readers=("connector", "consumer", "operator"),
        doc="Blocked shards and spaces: connectors refuse them, and states treat them as missing.",
    ),
    TopicSpec(
        name="dag.heads",
        key="space (32)",
        records=("culm_topics.dag.records:HeadsRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("job",),
        readers=("connector", "consumer", "operator"),
        doc="State of the DAG of each space: its heads, and what is missing.",
    ),
    TopicSpec(
        name="dag.order",
        key="id (32)",
        records=("culm_topics.dag.records:OrderRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(30),
        writers=("job",),
        readers=("connector", "consumer", "operator"),
        doc=(
            "The order of the publishes of each id, as changes: each record replaces the order from a "
            "position on."
        ),
    ),
    TopicSpec(
        name="dag.published",
        key="id (32)",
        records=("culm_topics.dag.records:PublishedRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        writers=("job",),
        readers=("connector", "consumer", "operator"),
        doc=(
            "The publish that is in force under each id: the tip and its state, other heads, and the "
            "latest complete publish."
        ),
    ),
)

DAG_JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="dag",
        reads=("dag.nodes", "dag.publishes", "dag.shards", "dag.blocked", "dag.settings"),
        writes=(
            "dag.shard-index",
            "dag.heads",
            "dag.order",
            "dag.published",
            "dag.settings",
            "rejected",
        ),
        load="culm_streaming.dag.job:JOB",
        doc="keeps the heads of spaces, the index of blocks in shards, and the order and tip of each id",
        group="dag",
    ),
)
