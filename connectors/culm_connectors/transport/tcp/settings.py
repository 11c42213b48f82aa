"""Settings of TCP. Sizes in bytes, times in seconds; the defaults suit the open internet."""

from __future__ import annotations

from typing import Final, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_KIB = 1_024
_MIB = 1_024 * 1_024


class TcpSettings(BaseModel):
    """Settings of channels over TCP, and limits on their number."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    receive_bound_bytes: int = Field(default=256 * _KIB, ge=1 * _KIB, le=256 * _MIB)
    """At this many unread bytes the channel stops reading from the kernel, which stops the remote."""
    send_bound_bytes: int = Field(default=1 * _MIB, ge=1 * _KIB, le=256 * _MIB)
    """A writer waits above this many bytes that the kernel has not accepted..."""
    send_resume_bytes: int = Field(default=256 * _KIB, ge=0)
    """...and goes on at this many."""
    socket_buffer_bytes: int | None = Field(default=None, ge=4 * _KIB)
    """Size of the kernel's buffer in each direction, in addition to these; None: the kernel chooses it."""
    handshake_timeout_s: float = Field(default=5.0, gt=0)
    """Time from the connection to the end of the TLS handshake; for a client, from the start of dialling."""
    idle_timeout_s: float = Field(default=300.0, gt=0)
    """A channel ends when the remote neither sent nor accepted a byte for this long."""
    keepalive_s: float = Field(default=15.0, ge=1)
    """TCP keepalive probes a silent remote after this time, three times, at intervals of a third of it."""
    close_timeout_s: float = Field(default=5.0, gt=0)
    """An orderly close waits this long for the remote to end its direction, too."""
    max_connections: int = Field(default=1_024, ge=1)
    max_connections_per_address: int = Field(default=128, ge=1)

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        if self.send_resume_bytes > self.send_bound_bytes:
            raise ValueError("send_resume_bytes must not be above send_bound_bytes")
        return self


DEFAULT_TCP: Final = TcpSettings()
