"""Settings of TCP and TLS. Sizes in bytes, times in seconds; the defaults suit the open internet."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_KIB = 1_024
_MIB = 1_024 * 1_024


class TcpSettings(BaseModel):
    """How channels over TCP behave, and how many there may be."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receive_bound_bytes: int = Field(default=256 * _KIB, ge=1 * _KIB, le=256 * _MIB)
    """Above this many unread bytes nothing more is taken from the kernel, which stops the remote."""
    send_bound_bytes: int = Field(default=1 * _MIB, ge=1 * _KIB, le=256 * _MIB)
    """A writer waits above this many bytes that the kernel has not taken..."""
    send_resume_bytes: int = Field(default=256 * _KIB, ge=0)
    """...and goes on at this many."""
    socket_buffer_bytes: int | None = Field(default=None, ge=4 * _KIB)
    """What the kernel may hold each way beside that; None: it finds out by itself."""
    handshake_timeout_s: float = Field(default=5.0, gt=0)
    """From the connection to the end of TLS's handshake; for a client, from the call on."""
    idle_timeout_s: float = Field(default=300.0, gt=0)
    """A channel ends when the remote neither sent nor took a byte for this long."""
    keepalive_s: float = Field(default=15.0, ge=1)
    """TCP's keepalive asks a silent remote after this long, and three times more a third of it apart."""
    close_timeout_s: float = Field(default=5.0, gt=0)
    """How long an orderly close waits for the remote's own end."""
    max_connections: int = Field(default=1_024, ge=1)
    max_connections_per_address: int = Field(default=128, ge=1)

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.send_resume_bytes > self.send_bound_bytes:
            raise ValueError("send_resume_bytes must not be above send_bound_bytes")
        return self


DEFAULT_TCP: Final = TcpSettings()


class TlsFiles(BaseModel):
    """TLS of one protocol: what this side shows, and whom it believes.

    Files are PEM. A server reads them again when they have changed, a client at each call.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path | None = Field(None, description="own certificate and the chain behind it")
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
