"""TLS settings of one protocol at an edge. Light to import, as the table of protocols reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class TlsFiles(BaseModel):
    """TLS of one protocol: its own certificate, and the authority that it trusts.

    Files are PEM. A server reloads them when they have changed; a client reads them at each connection.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path | None = Field(
        None,
        description="PEM file of the own certificate, followed by its chain.",
        examples=["/etc/culm/tls.pem"],
    )
    private_key: Path | None = Field(
        None,
        description="PEM file of the private key of the own certificate.",
        examples=["/etc/culm/tls.key"],
    )
    ca: Path | None = Field(
        None,
        description="PEM file of the authority that the other side's certificates must be from. By "
        "default it is the system's.",
        examples=["/etc/culm/ca.pem"],
    )
    server_name: str | None = Field(
        None,
        description="Name that a server's certificate must have. By default it is the host that is dialled.",
        examples=["culm.example.org"],
    )
    require_client_certificate: bool | None = Field(
        None,
        description="Requires a certificate of `ca` from every client. By default it is required if "
        "`ca` is set.",
        examples=[True],
    )
    minimum_version: Literal["1.2", "1.3"] = Field(
        "1.3", description="Lowest accepted version of TLS. QUIC always has 1.3."
    )

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key go together")
        if self.require_client_certificate and self.ca is None:
            raise ValueError("require_client_certificate needs ca")
        return self
