"""The layout of the state of the job `dag`, and its limits."""

from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError

_LIMITS: Final = {"shards": 1024, "batch_bytes": 256 * 1_048_576}


@dataclass(frozen=True, slots=True)
class DagLayout:
    """Layout of the state; `shards` is fixed for the life of a checkpoint.

    Raises `JobSettingsError` for values out of bounds.
    """

    shards: int = 16
    """Shards of the first stage, by CIDs of shards of DAGs; the second stage has one place."""
    batch_bytes: int = 1_048_576
    """Received rows are stored in pieces of the state of about this size."""

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            require(
                1 <= getattr(self, name) <= limit, JobSettingsError, f"{name} is not between 1 and {limit}"
            )
