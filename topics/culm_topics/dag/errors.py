"""What goes wrong between a program and its shards. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class ShardChunkRefused(TopicsError):
    """A chunk is not one of the shard that is being put together: another size, or another place."""

    code: ClassVar[str] = "topics.shard_chunk"


class ShardTooLarge(TopicsError):
    """A shard has more bytes than its reader takes."""

    code: ClassVar[str] = "topics.shard_size"
    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class ShardHashRefused(TopicsError):
    """The chunks of a shard are all there, and together they are another shard."""

    code: ClassVar[str] = "topics.shard_hash"
