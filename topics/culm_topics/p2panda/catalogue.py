"""Topics that only p2panda has: the announcements of its peers, and its documents with their job."""

from culm_topics.topic_spec import DEFAULT_PARTITIONS, JobSpec, TopicSpec, compacted

P2PANDA: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="announcements",
        key="peer id (32 bytes)",
        value="the Announce message's own bytes, as received",
        partitions=1,
        partitioned=False,
        cleanup="compact",
        config=compacted(),
        writers=("connector",),
        readers=("connector", "job", "operator"),
        doc="Which schemas each peer wants to replicate: its latest announcement. A peer that no connector "
        "has seen for 30 days is removed, and of more than 200,000 peers those not seen for longest.",
    ),
    TopicSpec(
        name="documents",
        key="document id (34 bytes)",
        records=("culm_topics.p2panda.documents.record:DocumentRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("consumer", "operator"),
        doc="The current fields of each document, with the operation that set each. Deleted documents stay, "
        "as records without fields.",
    ),
)

P2PANDA_JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="documents",
        reads=("logs",),
        writes=("documents", "rejected"),
        load="culm_streaming.p2panda_documents.job:JOB",
        doc="reduces the operations of each document to its current fields",
        group="documents",
    ),
)
