"""Settings of TCP and TLS. Sizes in bytes, times in seconds; the defaults suit the open internet."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

TlsVersion = Literal["1.2", "1.3"]
"""A version of TLS."""

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


class TlsServerSettings(BaseModel):
    """What a server shows, and whom it asks to prove a key. PEM files, read again when they change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path
    """The certificate and the chain behind it."""
    private_key: Path
    client_ca: Path | None = None
    """Clients may show a certificate of this authority; without one none is asked for."""
    require_client_certificate: bool = False
    minimum_version: TlsVersion = "1.3"

    @model_validator(mode="after")
    def _check_authority(self) -> Self:
        if self.require_client_certificate and self.client_ca is None:
            raise ValueError("require_client_certificate needs client_ca")
        return self


class TlsClientSettings(BaseModel):
    """Whom a client believes, and what it shows. Files are PEM, and read at each call."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    ca: Path | None = None
    """The authority of servers; None: those of the system."""
    server_name: str | None = None
    """What the server's certificate must be for; None: the host that is called."""
    certificate: Path | None = None
    private_key: Path | None = None
    minimum_version: TlsVersion = "1.3"
