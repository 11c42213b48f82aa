"""The layout of the state of the job `documents`, and its limits."""

from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError

MAX_VALUES: Final = {
    "shards": 1_024,
    "blocks": 65_535,
    "max_waiting_logs": 1_000_000,
    "max_waiting_logs_per_author": 1_000_000,
    "max_waiting_bytes": 1_073_741_824,
    "max_waiting_bytes_per_log": 67_108_864,
    "max_waiting_operations": 65_536,
    "max_value_bytes": 1_048_576,
    "max_record_bytes": 1_048_576,
}
"""The largest value of each setting; the smallest is 1."""


@dataclass(frozen=True, slots=True)
class DocumentsLayout:
    """Layout of the state.

    `shards` and `blocks` are fixed for the life of a checkpoint; the limits may change at a restart.

    Operations that exceed a limit are reported on `rejected`. Raises `JobSettingsError` for values out of
    bounds.
    """

    shards: int = 16
    blocks: int = 256
    max_waiting_logs: int = 65_536
    """Logs that wait for the operation that their first entry follows."""
    max_waiting_logs_per_author: int = 1_024
    max_waiting_bytes: int = 67_108_864
    """Bytes of the operations of waiting logs."""
    max_waiting_bytes_per_log: int = 1_048_576
    max_waiting_operations: int = 1_024
    """Operations of one document that wait for others."""
    max_value_bytes: int = 16_384
    """Longer values are in `logs` only."""
    max_record_bytes: int = 262_144
    """Bytes of all values of a record; beyond, the longest ones are in `logs` only."""

    def __post_init__(self) -> None:
        for name, limit in MAX_VALUES.items():
            require(
                1 <= getattr(self, name) <= limit, JobSettingsError, f"{name} is not between 1 and {limit}"
            )
