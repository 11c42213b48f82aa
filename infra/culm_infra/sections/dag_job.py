"""Settings of the job `dag` in the settings file."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.validation_rules import LEEWAY_MAX, ValidationRules
from culm_models.errors import CulmError


class DagJobSection(BaseModel):
    """Limits of the job's micro-batches, and the deployment's validation settings, equal to its
    connectors'.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    policy: Literal["bound", "bearer"] = Field(
        "bound",
        description="What a proof must name to count: `bound` or `bearer`. It is equal in all "
        "processes of a deployment.",
    )
    legacy: bool = Field(False, description="Accepts UCANs of version 0.8.1, too.")
    services: tuple[str, ...] = Field((), description="Keys, as did:key, that may be the audience of a UCAN.")
    leeway_s: int = Field(0, ge=0, le=LEEWAY_MAX, description="Tolerance for clocks that differ.")
    max_offsets_per_trigger: int = Field(
        50_000, ge=1, description="Largest number of nodes, and of publishes, in a micro-batch."
    )
    max_chunks_per_trigger: int = Field(
        128,
        ge=1,
        description="Largest number of chunks of shards in a micro-batch; a chunk has up to 896 KiB.",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.validation_rules()
        except CulmError as error:
            raise ValueError(str(error)) from error
        return self

    def validation_rules(self) -> ValidationRules:
        """Return the deployment's rules (R28); the job refuses to start if other rules are in force."""
        services = tuple(did_from_text(service) for service in self.services)
        return ValidationRules(self.policy, self.legacy, services, self.leeway_s)
