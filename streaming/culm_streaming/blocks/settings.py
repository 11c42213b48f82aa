"""The layout of the state of the job `blocks`."""

from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_models.lifts import DEFAULT, Lift, by_name
from culm_streaming.errors import JobSettingsError
from culm_topics.logs.records import DEFAULT_BLOCK_BITS, MAX_BLOCK_BITS, MAX_CHUNK_ROWS

_BOUNDS: Final = {
    "block_bits": (0, MAX_BLOCK_BITS),
    "shards": (1, 65_535),
    "chunk_rows": (1, MAX_CHUNK_ROWS),
    "recent_rows": (1, MAX_CHUNK_ROWS // 2),
}


@dataclass(frozen=True, slots=True)
class HeightsSettings:
    """Layout of the state; `block_bits` and `shards` are fixed for the life of a checkpoint.

    `lifts` may change at a restart. `shards` is the number of partitions of the topic `blocks`. Lifts with a
    salt cannot be kept, because a salt belongs to a session. `xor64` and `add64` are hashed one by one, 2 µs
    each. Raises `JobSettingsError` for values out of bounds.
    """

    block_bits: int = DEFAULT_BLOCK_BITS
    shards: int = 8
    lifts: tuple[str, ...] = (DEFAULT.name,)
    chunk_rows: int = 8_192
    """Rows of a chunk: 384 KiB.

    A state store returns 1 MB in 16 ms, as long as a hundred small values take.
    """
    recent_rows: int = 64
    """Number of rows that may be recent for any size of the block: a small block has no chunks."""

    def __post_init__(self) -> None:
        for name, (minimum, maximum) in _BOUNDS.items():
            holds = minimum <= getattr(self, name) <= maximum
            require(holds, JobSettingsError, f"{name} is not between {minimum} and {maximum}")
        salted = [lift.name for lift in self.kept if lift.salt_bytes]
        require(not salted, JobSettingsError, f"lifts with a salt cannot be kept: {', '.join(salted)}")

    @property
    def kept(self) -> tuple[Lift, ...]:
        """The lifts whose fingerprints are kept, by name."""
        return tuple(by_name(name) for name in sorted(set(self.lifts)))
