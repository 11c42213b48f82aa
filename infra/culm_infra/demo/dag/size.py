"""The options of the demo."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final, Literal

import typer

from culm_infra.demo.kit.size import DemoSize, Timeout

Policy = Literal["bound", "bearer"]
POLICIES: Final[tuple[Policy, ...]] = ("bound", "bearer")
SMALL_BYTES: Final = 3_000_000
"""Size of every file except ada's large one, in bytes."""
SHARD_BYTES: Final = 2_097_152


@dataclass(frozen=True, slots=True, kw_only=True)
class DagDemoSize(DemoSize):
    """Options of the demo. The large file is sent only under the first policy."""

    file_mb: Annotated[int, typer.Option(min=2, max=10_000, help="Megabytes of the large file.")] = 200
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--proof-policy",
            help="Only under this policy: bound or bearer. Repeatable.",
            autocompletion=lambda incomplete: [
                policy for policy in POLICIES if policy.startswith(incomplete)
            ],
        ),
    ] = None
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="The same files again.")] = 7
    timeout: Timeout = 240.0

    @property
    def chosen(self) -> tuple[Policy, ...]:
        """The policies to play under."""
        return tuple(policy for policy in POLICIES if policy in (self.policies or POLICIES))

    def large_bytes(self, policy: Policy) -> int:
        """Return the size of ada's file under a policy, in bytes."""
        return self.file_mb * 1_000_000 if policy == self.chosen[0] else SMALL_BYTES
