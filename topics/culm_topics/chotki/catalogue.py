"""Topics of Chotki: packets and diffs from edges and writers, the merged state, and the progress of peers.

Packets are in the partition of their source, all records of a block in the partition of the block
(`culm_topics.chotki.records.keys`): `chotki.fields` and `chotki.state` have the same number of partitions.
"""

from culm_topics.topic_spec import DEFAULT_PARTITIONS, JobSpec, TopicSpec, compacted, kept_for

_HOUR_MS = 60 * 60 * 1000

CHOTKI: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="chotki.packets",
        key="source (8)",
        records=("culm_topics.chotki.records:PacketRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector", "operator"),
        readers=("connector", "consumer", "operator"),
        doc="Live packets, byte for byte, in order within each source. Packets may repeat.",
    ),
    TopicSpec(
        name="chotki.fields",
        key="store key (18)",
        records=("culm_topics.chotki.records:OperandRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector",),
        readers=("operator",),
        doc=(
            "Contents of diffs: the operands of fields, followed by the vectors of their blocks. "
            "Records may repeat."
        ),
    ),
    TopicSpec(
        name="chotki.commits",
        key="session key (40)",
        records=("culm_topics.chotki.records:CommitRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector",),
        readers=("connector", "operator"),
        doc="One record per complete diff: its vector, and the offsets in `chotki.fields` at which it ends.",
    ),
    TopicSpec(
        name="chotki.state",
        key="store key (18), piece key (38), or epoch key (5)",
        records=(
            "culm_topics.chotki.records:FieldRecord",
            "culm_topics.chotki.records:FieldHead",
            "culm_topics.chotki.records:PieceRecord",
            "culm_topics.chotki.records:BlockVectorRecord",
            "culm_topics.chotki.records:EpochRecord",
        ),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        # A slower reader may miss values that an epoch replaced.
        config=compacted() | {"min.compaction.lag.ms": str(_HOUR_MS)},
        readers=("connector", "consumer", "operator"),
        doc=(
            "The merged value of every field, the vector of every block, and a mark at the end of each epoch."
        ),
    ),
    TopicSpec(
        name="chotki.vectors",
        key="source (8), or the global vector's store key (18)",
        records=("culm_topics.chotki.records:VectorRecord",),
        partitions=1,
        partitioned=False,
        cleanup="compact",
        config=compacted(),
        writers=("connector",),
        readers=("connector", "consumer", "operator"),
        doc="The version vectors of the deployment and of each peer.",
    ),
    TopicSpec(
        name="chotki.sessions",
        key="session key (40)",
        records=("culm_topics.chotki.records:SessionRecord",),
        partitions=1,
        partitioned=False,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector",),
        readers=("operator",),
        doc="Sessions with peers: state, traces, bytes, and the reason for which they ended.",
    ),
    TopicSpec(
        name="chotki.sources",
        key="source (8)",
        records=("culm_topics.chotki.records:SourceRecord",),
        partitions=1,
        partitioned=False,
        cleanup="compact",
        config=compacted(),
        writers=("connector", "operator"),
        readers=("connector", "operator"),
        doc="Source numbers of the deployment's own replicas, with their owner and whether they may be used.",
    ),
)

CHOTKI_JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="chotki",
        reads=("chotki.packets", "chotki.fields", "chotki.commits"),
        writes=("chotki.state", "chotki.vectors", "rejected"),
        load="culm_streaming.chotki.job:JOB",
        doc="merges what Chotki replicas have sent, and keeps the vectors of blocks and the global vector",
        group="chotki",
    ),
)
