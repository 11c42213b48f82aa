"""The state of one shard: the records that it wrote, by set and block."""

from culm_streaming.stateful.job_state import Variable

BlockId = tuple[int, bytes, int]
"""(source, name of the set, block)."""

_PLACE = "source int, name binary, block int"
SHARD: Variable[bytes] = Variable("shard")
"""The shard's own record: its layout and its progress."""
SUMMARIES: Variable[bytes] = Variable("summaries", _PLACE)
"""The latest summary of each block, as it was written."""
CHUNKS: Variable[bytes] = Variable("chunks", f"{_PLACE}, chunk int")
"""The chunks of each block's heights, as they were written."""
VARIABLES = (SHARD, SUMMARIES, CHUNKS)
