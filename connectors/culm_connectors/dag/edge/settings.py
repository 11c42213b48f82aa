"""Settings of DAG replication at the edge: addresses, rules and limits."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_connectors.dag.http.settings import AccessMode, DagHttpSettings
from culm_connectors.dag.store.settings import GIB, DagFolderQuotas
from culm_connectors.url import parse_url
from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.validation_rules import LEEWAY_MAX, ValidationRules
from culm_models.errors import CulmError


def _quic_address(text: str) -> tuple[str, int]:
    """Return host and port. Raises `ValueError` if the address is malformed."""
    return parse_url(text, schemes=("quic",), default="quic").address


class EdgeQuotas(BaseModel):
    """Limits on what peers may store at one edge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_bytes_per_space: int = Field(
        10 * GIB,
        ge=1,
        description="Largest size of the nodes and shards of a space; more data is accepted later.",
    )
    max_staged_items: int = Field(
        100_000,
        ge=1,
        description="Number of items that Kafka has not acknowledged yet; more items are accepted later.",
    )


class DagEdgeSettings(DagFolderQuotas, EdgeQuotas):
    """DAG replication at the edge; nothing is served unless `listen` or another door is set."""

    listen: str | None = Field(
        None,
        description="Address on which peers are served over QUIC, as HOST:PORT. By default peers "
        "are not served.",
        examples=["0.0.0.0:4460"],
    )
    http: DagHttpSettings | None = Field(None, description="The HTTP door (section 9 of the protocol).")
    policy: Literal["bound", "bearer"] = Field(
        "bound",
        description="What a proof must name to count: `bound` or `bearer`. It is equal in all "
        "processes of a deployment, as the next three settings are.",
    )
    legacy: bool = Field(False, description="Accepts UCANs of version 0.8.1, too.")
    services: tuple[str, ...] = Field((), description="Keys, as did:key, that may be the audience of a UCAN.")
    leeway_s: int = Field(0, ge=0, le=LEEWAY_MAX, description="Tolerance for clocks that differ.")
    append: AccessMode = Field(
        "allowed",
        description="Who may send nodes and shards of a space: `anyone`, `allowed` (listed peers), "
        "or `ucan` (holders of a UCAN, too).",
    )
    read: AccessMode = Field(
        "allowed",
        description="Who may read a space: `anyone`, `allowed` (listed peers), or `ucan` (holders "
        "of a UCAN, too).",
    )
    spaces: tuple[str, ...] = Field(
        (), description="Spaces that are named to peers that connect, with 64 hex digits each."
    )
    max_connections_per_peer: int = Field(
        8, ge=1, description="Largest number of QUIC connections of one key."
    )
    connections_per_minute: float = Field(
        60.0, ge=0, description="Rate of new connections of one key. 0 means unlimited."
    )
    bytes_per_second: float = Field(
        67_108_864.0, ge=0, description="Rate of data of one key; more data is read later. 0 means unlimited."
    )
    burst_bytes: float = Field(
        268_435_456.0,
        ge=1_048_576,
        description="Size of the data that one key may send at once beyond its rate.",
    )
    busy_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of the folder thread's time for the data of one principal, and of one "
        "address. 0 means unlimited.",
    )
    busy_burst_s: float = Field(2.0, gt=0, description="Time that a principal may save up of its share.")

    @field_validator("listen")
    @classmethod
    def _check_listen(cls, listen: str | None) -> str | None:
        if listen is not None:
            _quic_address(listen)
        return listen

    @field_validator("spaces")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if len(bytes.fromhex(space)) != 32:
                raise ValueError(f"{space}: a space has 64 hex digits")
        return spaces

    @model_validator(mode="after")
    def _check(self) -> Self:
        try:
            self.verdict()
        except CulmError as error:
            raise ValueError(str(error)) from error
        return self

    def address(self) -> tuple[str, int]:
        """Return host and port of `listen`, which must be set."""
        assert self.listen is not None
        return _quic_address(self.listen)

    def verdict(self) -> ValidationRules:
        """Return the deployment's rules as this process is configured (R28)."""
        services = tuple(did_from_text(text) for text in self.services)
        return ValidationRules(self.policy, self.legacy, services, self.leeway_s)
