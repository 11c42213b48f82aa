"""Topics that only p2panda has: the announcements of its peers."""

from culm_topics.topic_spec import TopicSpec, compacted

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
)
