"""Settings of TCP. Sizes in bytes, times in seconds; the defaults suit the open internet."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_KIB = 1_024
_MIB = 1_024 * 1_024


class TcpSettings(BaseModel):
    """Settings of channels over TCP, and limits on their number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receive_bound_bytes: int = Field(
        default=256 * _KIB,
        ge=1 * _KIB,
        le=256 * _MIB,
        description="Number of unread bytes at which a channel stops reading from the kernel, which "
        "stops the remote.",
    )
    send_bound_bytes: int = Field(
        default=1 * _MIB,
        ge=1 * _KIB,
        le=256 * _MIB,
        description="A writer waits above this number of bytes that the kernel has not accepted.",
    )
    send_resume_bytes: int = Field(
        default=256 * _KIB,
        ge=0,
        description="A waiting writer continues at this number of bytes. It must not be above "
        "`send_bound_bytes`.",
    )
    socket_buffer_bytes: int | None = Field(
        default=None,
        ge=4 * _KIB,
        description="Size of the kernel's buffer in each direction, in addition to these. By "
        "default the kernel chooses it.",
        examples=[262144],
    )
    handshake_timeout_s: float = Field(
        default=5.0,
        gt=0,
        description="Time from the connection to the end of the TLS handshake; for a client, from "
        "the start of dialling.",
    )
    idle_timeout_s: float = Field(
        default=300.0,
        gt=0,
        description="A channel ends when the remote neither sent nor accepted a byte for this long.",
    )
    keepalive_s: float = Field(
        default=15.0,
        ge=1,
        description="TCP keepalive probes a silent remote after this time, three times, at "
        "intervals of a third of it.",
    )
    close_timeout_s: float = Field(
        default=5.0,
        gt=0,
        description="An orderly close waits this long for the remote to end its direction, too.",
    )
    max_connections: int = Field(default=1_024, ge=1, description="Largest number of connections.")
    max_connections_per_address: int = Field(
        default=128, ge=1, description="Largest number of connections from one address."
    )

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.send_resume_bytes > self.send_bound_bytes:
            raise ValueError("send_resume_bytes must not be above send_bound_bytes")
        return self


DEFAULT_TCP: Final = TcpSettings()
