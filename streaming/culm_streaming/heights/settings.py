"""How the state of the job `blocks` is laid out."""

from dataclasses import dataclass

from culm_models.lifts import DEFAULT, Lift, by_name
from culm_topics.records import DEFAULT_BLOCK_BITS, MAX_BLOCK_BITS, MAX_CHUNK_ROWS


@dataclass(frozen=True, slots=True)
class HeightsSettings:
    """`block_bits` and `shards` are fixed for the life of a checkpoint, `lifts` may change at a restart.

    `shards` is the number of partitions of the topic `blocks`. Lifts with a salt cannot be kept: the salt is
    a session's. `xor64` and `add64` are hashed one by one, 2 µs each.
    """

    block_bits: int = DEFAULT_BLOCK_BITS
    shards: int = 8
    lifts: tuple[str, ...] = (DEFAULT.name,)
    chunk_rows: int = 8_192
    """Rows of a chunk: 384 KiB. A state store hands over 1 MB in 16 ms, as much as a hundred small values."""
    recent_rows: int = 64
    """How many rows may be recent whatever the size of the block: a small block has no chunks at all."""

    def __post_init__(self) -> None:
        assert 0 <= self.block_bits <= MAX_BLOCK_BITS
        assert 1 <= self.shards <= 65_535
        assert 1 <= self.chunk_rows <= MAX_CHUNK_ROWS
        assert 1 <= self.recent_rows <= MAX_CHUNK_ROWS // 2
        assert all(not lift.salt_bytes for lift in self.kept)

    @property
    def kept(self) -> tuple[Lift, ...]:
        """The lifts whose fingerprints are kept, by name."""
        return tuple(by_name(name) for name in sorted(set(self.lifts)))
