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

    certificate: Path | None = Field(None, description="the own certificate, followed by its chain")
    private_key: Path | None = None
    ca: Path | None = Field(None, description="the authority of the other side; by default the system's")
    server_name: str | None = Field(
        None, description="what a server's certificate must be for; by default the host that is called"
    )
    require_client_certificate: bool | None = Field(
        None, description="who calls must show one of `ca`; by default where `ca` is set"
    )
    minimum_version: Literal["1.2", "1.3"] = Field("1.3", description="of TLS; QUIC has 1.3 in any case")

    @model_validator(mode="after")
    def _check_pairs(self) -> Self:
        if (self.certificate is None) != (self.private_key is None):
            raise ValueError("certificate and private_key go together")
        if self.require_client_certificate and self.ca is None:
            raise ValueError("require_client_certificate needs ca")
        return self
