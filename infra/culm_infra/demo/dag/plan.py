"""How large the demo is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from culm_topics.kafka.clients import KafkaSettings

Policy = Literal["bound", "bearer"]
POLICIES: Final[tuple[Policy, ...]] = ("bound", "bearer")
HOST: Final = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DagDemoSettings:
    """`file_mb`: of the large file, which the first policy alone has; `seed`: the same content again."""

    directory: Path
    file_mb: int = 200
    small_kb: int = 3_000
    shard_bytes: int = 2_097_152
    policies: tuple[Policy, ...] = POLICIES
    seed: int = 7
    timeout_s: float = 240.0
    keep: bool = False
    kafka: KafkaSettings | None = None
    heap_mb: int | None = None

    def large_bytes(self, policy: Policy) -> int:
        """The size of ada's file under a policy: one deployment shows that a large file passes."""
        return self.file_mb * 1_000_000 if policy == self.policies[0] else self.small_bytes

    @property
    def small_bytes(self) -> int:
        """The size of any other file."""
        return self.small_kb * 1_000
