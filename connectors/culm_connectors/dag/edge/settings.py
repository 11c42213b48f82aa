"""Settings of DAG replication at the edge: addresses, rules and limits."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_connectors.dag.http.settings import AccessMode, DagHttpSettings
from culm_connectors.dag.store.settings import GIB, DagFolderQuotas
from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.validation_rules import LEEWAY_MAX, ValidationRules
from culm_models.errors import CulmError


class EdgeQuotas(BaseModel):
    """Limits on what peers may store at one edge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes_per_space: int = Field(
        10 * GIB, ge=1, description="of nodes and shards of a space; more comes later"
    )
    max_staged_items: int = Field(100_000, ge=1, description="not acknowledged by Kafka; more comes later")


class DagEdgeSettings(DagFolderQuotas, EdgeQuotas):
    """DAG replication at the edge; nothing is served unless `listen` or another door is set."""

    listen: str | None = Field(None, description="where peers may call over QUIC: HOST:PORT")
    http: DagHttpSettings | None = Field(None, description="the door for clients of HTTP (section 9)")
    policy: Literal["bound", "bearer"] = Field(
        "bound", description="what a proof has to name; one for the deployment, as the next three"
    )
    legacy: bool = Field(False, description="take UCANs of 0.8.1, too")
    services: tuple[str, ...] = Field((), description="did:keys that may be the audience of a UCAN")
    leeway_s: int = Field(0, ge=0, le=LEEWAY_MAX, description="for clocks that differ")
    append: AccessMode = Field("allowed", description="who may send nodes and shards of a space")
    read: AccessMode = Field("allowed", description="who may read a space")
    spaces: tuple[str, ...] = Field((), description="named to peers that call, 64 hex digits each")
    max_connections_per_peer: int = Field(8, ge=1, description="over QUIC, of one key")
    connections_per_minute: float = Field(60.0, ge=0, description="of one key; 0: any")
    bytes_per_second: float = Field(67_108_864.0, ge=0, description="of one key; more is read later; 0: any")
    burst_bytes: float = Field(268_435_456.0, ge=1_048_576)
    busy_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="share of the folder thread's time for the data of one principal, and of one address",
    )
    busy_burst_s: float = Field(2.0, gt=0, description="of that time, what may be saved up")

    @field_validator("spaces")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if len(bytes.fromhex(space)) != 32:
                raise ValueError(f"{space}: a space has 64 hex digits")
        return spaces

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.listen is not None:
            self.address()
        try:
            self.verdict()
        except CulmError as error:
            raise ValueError(str(error)) from error
        return self

    def address(self) -> tuple[str, int]:
        """Return host and port of `listen`. Raises `ValueError` if it is malformed."""
        host, colon, port = (self.listen or "").rpartition(":")
        if not (colon and host and port.isdigit() and int(port) <= 65_535):
            raise ValueError(f"{self.listen}: write HOST:PORT")
        return host.strip("[]"), int(port)

    def verdict(self) -> ValidationRules:
        """Return the deployment's rules as this process is configured (R28)."""
        services = tuple(did_from_text(text) for text in self.services)
        return ValidationRules(self.policy, self.legacy, services, self.leeway_s)
