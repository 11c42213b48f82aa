"""The layout of the state of the job `coverage`, and its limits."""

from dataclasses import dataclass
from typing import Final

from culm_models.errors import require
from culm_streaming.errors import JobSettingsError

_LIMITS: Final = {
    "shards": 1024,
    "blocks": 65_535,
    "max_rows_per_block": 1_000_000,
    "max_runs": 50_000,
    "max_rows_per_peer": 1_000_000,
    "max_fragments_per_log": 16_384,
    "max_fragments_per_shard": 4_194_304,
    "max_payloads_per_block": 1_000_000,
    "max_waiting_per_payload": 65_535,
}


@dataclass(frozen=True, slots=True)
class CoverageLayout:
    """Layout of the state.

    `shards` and `blocks` are fixed for the life of a checkpoint; the limits may change at a restart.

    Data that exceeds a limit is reported on `rejected`. Raises `JobSettingsError` for values out of bounds.
    """

    shards: int = 16
    blocks: int = 64
    max_rows_per_block: int = 4_096
    """Rows of logs and peers together."""
    max_runs: int = 4_096
    """Runs of one set of a row: a claim or an entry that creates more is refused."""
    max_rows_per_peer: int = 4_096
    """Logs of which one peer may claim holdings, in each shard; its logs spread evenly over the shards."""
    max_fragments_per_log: int = 8_192
    """Entries behind gaps whose links are stored, the lowest of their log.

    Further entries count as held but not as provable, until the log has reached them.
    """
    max_fragments_per_shard: int = 262_144
    max_payloads_per_block: int = 16_384
    """Hashes of payloads: 16 bytes each once a payload is whole."""
    max_waiting_per_payload: int = 1_024
    """Entries that wait for one payload."""

    def __post_init__(self) -> None:
        for name, limit in _LIMITS.items():
            require(
                1 <= getattr(self, name) <= limit, JobSettingsError, f"{name} is not between 1 and {limit}"
            )
