"""The state of a shard: blobs by name. The first byte of a name says what its blob is."""

from typing import Final

from culm_streaming.stateful.job_state import Variable

BLOBS: Final[Variable[bytes]] = Variable("blobs", "name binary")
