"""What goes wrong between a program and its shards. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class ShardChunkRefused(TopicsError, code="topics.shard_chunk"):
    """A chunk is not one of the shard that is being put together: another size, or another place."""


class ShardTooLarge(TopicsError, code="topics.shard_size"):
    """A shard has more bytes than its reader takes."""

    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class ShardHashRefused(TopicsError, code="topics.shard_hash"):
    """The chunks of a shard are all there, and together they are another shard."""
