"""Topics of SDS channels: incoming and outgoing messages, the store of messages, and the job's state.

Producers and the job put a channel into partition `culm_topics.sds.keys.shard_of` of each of these topics.
"""

from culm_topics.topic_spec import DEFAULT_PARTITIONS, JobSpec, TopicSpec, compacted, kept, kept_for

SDS: tuple[TopicSpec, ...] = (
    TopicSpec(
        name="sds.in",
        key="channel id",
        records=("culm_topics.sds.records:SdsInRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector",),
        readers=("connector", "operator"),
        doc=(
            "SDS messages that connectors received or fetched, not validated. Messages may repeat and "
            "come in any order."
        ),
    ),
    TopicSpec(
        name="sds.commands",
        key="channel id",
        records=("culm_topics.sds.records:SdsCommandRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        writers=("connector", "operator"),
        readers=("operator",),
        doc="Commands of hosted participants: join, leave, send, resend.",
    ),
    TopicSpec(
        name="sds.messages",
        key="channel id",
        records=("culm_topics.sds.records:SdsMessageRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="keep",
        config=kept(),
        readers=("connector", "consumer", "operator"),
        doc=(
            "The store: the bytes of every content message. A batch that is retried may repeat the "
            "same bytes."
        ),
    ),
    TopicSpec(
        name="sds.index",
        key="channel id, then message id (see Keys)",
        records=("culm_topics.sds.records:SdsIndexRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "consumer", "operator"),
        doc="The offset of each message in `sds.messages`: partition n points into partition n.",
    ),
    TopicSpec(
        name="sds.out",
        key="channel id",
        records=("culm_topics.sds.records:SdsOutRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=7),
        readers=("connector", "operator"),
        doc="Messages that hosted participants broadcast. A repeated record has the same bytes.",
    ),
    TopicSpec(
        name="sds.events",
        key="channel id",
        records=("culm_topics.sds.records:SdsEventRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="keep",
        config=kept(),
        readers=("connector", "consumer", "operator"),
        doc=(
            "The events of each channel, numbered from 1 within the channel. A batch that is retried "
            "may repeat events."
        ),
    ),
    TopicSpec(
        name="sds.fetch",
        key="channel id",
        records=("culm_topics.sds.records:SdsFetchRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="time",
        config=kept_for(days=1),
        readers=("connector", "operator"),
        doc="Missing dependencies whose retrieval is due. Fetched messages go to `sds.in`.",
    ),
    TopicSpec(
        name="sds.acks",
        key="kind, channel id, participant id, message id (see Keys)",
        records=(
            "culm_topics.sds.records:SdsChannelRecord",
            "culm_topics.sds.records:SdsParticipantRecord",
            "culm_topics.sds.records:SdsAckRecord",
        ),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "operator"),
        doc=(
            "A summary of each channel, the outgoing buffer of each hosted participant, and the "
            "acknowledgement state of each message."
        ),
    ),
    TopicSpec(
        name="sds.owners",
        key="channel id, then participant id (see Keys)",
        records=("culm_topics.sds.records:SdsOwnerRecord",),
        partitions=DEFAULT_PARTITIONS,
        partitioned=True,
        cleanup="compact",
        config=compacted(),
        readers=("connector", "operator"),
        doc=(
            "The owner and profile of each channel, and the owner of each participant id that belongs "
            "to a key."
        ),
    ),
)

SDS_JOBS: tuple[JobSpec, ...] = (
    JobSpec(
        name="sds",
        reads=("sds.in", "sds.commands"),
        writes=("sds.messages", "sds.out", "sds.events", "sds.fetch", "sds.acks", "sds.owners", "rejected"),
        load="culm_streaming.sds.job:JOB",
        doc="keeps channels of SDS, their store and their hosted participants",
        group="sds",
    ),
    JobSpec(
        name="sds-index",
        reads=("sds.messages",),
        writes=("sds.index", "rejected"),
        load="culm_streaming.sds_index:JOB",
        doc="indexes the messages in the store of SDS",
        group="sds",
        stateful=False,
    ),
)
