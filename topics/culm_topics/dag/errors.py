"""Errors between a program and its shards. Codes are stable: see `culm_models.errors`."""

from typing import ClassVar

from culm_topics.errors import TopicsError


class ShardChunkRefused(TopicsError, code="topics.shard_chunk"):
    """The chunks or parts of a shard do not have the expected size or offset."""


class ShardTooLarge(TopicsError, code="topics.shard_size"):
    """A shard is larger than its reader's limit."""

    default_hint: ClassVar[str | None] = "give the reader a larger limit, and the room on the disk"


class ShardHashRefused(TopicsError, code="topics.shard_hash"):
    """All chunks of a shard are present, but their hash is not the shard's."""


class ShardPlacesFailed(TopicsError, code="topics.shard_places"):
    """The local file with the places of blocks cannot be used: for its folder or its disk."""
