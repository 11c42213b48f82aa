"""Settings of the HTTP door: its address, tokens, rights without a token, and all its limits.

Over a limit on connections, on requests a second, and on reads or bodies at once, a bounded number waits in a
queue; beyond the queue, and over any other limit, a request is refused. A client is a token, or else an
address (of IPv6, a network of 64 bits).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_models.dag.wire.messages import CHUNK_SIZE

EVERY: Final = "*"
_SPACE: Final = re.compile("[0-9a-fA-F]{64}")
AccessMode = Literal["anyone", "allowed", "ucan"]
"""Who may use an ability: everybody, the peers or tokens that are listed, or also holders of a UCAN (R14)."""
PART_BYTES: Final = 4 * CHUNK_SIZE
"""The largest part of a shard in one request: below the limits of serverless hosts."""


class DoorLimits(BaseModel):
    """Every limit of one HTTP door; counts are of one process."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    max_connections: int = Field(1_024, ge=1, description="that are served at once")
    max_connections_per_address: int = Field(64, ge=1)
    max_waiting_connections: int = Field(
        512, ge=0, description="that are accepted and wait until one is closed; further ones are reset"
    )
    max_waiting_connections_per_address: int = Field(256, ge=0)
    head_timeout_s: float = Field(15.0, gt=0, description="for a connection to send its next request's head")
    write_timeout_s: float = Field(
        30.0, gt=0, description="that a client may take nothing of what is waiting for it"
    )
    write_bytes_per_second: float = Field(
        8_192.0, gt=0, description="the least rate at which it takes that, behind so much time"
    )
    parts_per_second: float = Field(
        2_048.0,
        ge=0,
        description="heads, chunks and ends of requests of an address, each of up to 64 KiB; more are read "
        "later; 0: unlimited",
    )
    burst_parts: float = Field(8_192.0, ge=1)

    max_clients: int = Field(65_536, ge=1, description="clients clients clients whose rates are remembered")
    requests_per_second: float = Field(200.0, ge=0, description="of a client; 0: unlimited")
    burst_requests: float = Field(1_000.0, ge=1)
    request_wait_s: float = Field(
        5.0, ge=0, description="that a request over this rate waits; one that had to wait longer gets 429"
    )
    max_waiting_per_client: int = Field(
        256, ge=0, description="requests that wait to read, or to send a body; further ones get 429"
    )

    max_reads: int = Field(64, ge=1, description="concurrent reads of blocks, files and missing nodes")
    max_reads_per_client: int = Field(16, ge=1, description="of them; more wait")
    walk_blocks: int = Field(
        131_072, ge=1, description="blocks and links that one CAR or one page of a directory may go through"
    )
    max_heads: int = Field(1_000, ge=1, description="links in one request for missing nodes")

    max_bodies: int = Field(32, ge=1, description="that are taken at once: each may fill a part's memory")
    max_bodies_per_client: int = Field(8, ge=1, description="of them; more wait")
    max_body_bytes: int = Field(PART_BYTES, ge=PART_BYTES, description="of any other body than a part")
    body_grace_s: float = Field(15.0, gt=0, description="before the least rate of a body counts")
    body_bytes_per_second: float = Field(8_192.0, gt=0, description="the least rate, behind the grace")
    bytes_per_second: float = Field(
        67_108_864.0, ge=0, description="of bodies of a client; more is read later; 0: unlimited"
    )
    burst_bytes: float = Field(268_435_456.0, ge=PART_BYTES)

    max_event_streams: int = Field(1_024, ge=1)
    max_event_streams_per_client: int = Field(8, ge=1)
    events_every_s: float = Field(
        0.25, gt=0, description="an id that streams are about is looked at again no sooner than after so long"
    )
    max_event_looks_per_second: float = Field(
        256.0, gt=0, description="at all such ids: with more of them, each is looked at again later"
    )
    heartbeat_s: float = Field(15.0, gt=0, description="of a stream of events that has nothing to say")


class DoorTls(BaseModel):
    """PEM files of the door's certificate and its key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path = Field(description="the own certificate, followed by its chain")
    private_key: Path


class TokenRule(BaseModel):
    """Rights of the bearer of one configured token: spaces in hex, or `*` for all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="of the token's text, which is kept nowhere")
    append: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @field_validator("append", "read")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if space != EVERY and _SPACE.fullmatch(space) is None:
                raise ValueError(f"{space}: neither 64 hex digits nor *")
        return tuple(space.lower() for space in spaces)


class DagHttpSettings(DoorLimits):
    """The HTTP door: its address, access rules and limits."""

    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535, description="0: one that is free")
    tls: DoorTls | None = Field(None, description="without it the door speaks plain HTTP")
    append: AccessMode = Field(
        "allowed",
        description="who may send nodes and shards: anyone, clients with tokens, or with UCANs, too",
    )
    read: AccessMode = Field("allowed", description="who may read: anyone, tokens, or UCANs too")
    tokens: tuple[TokenRule, ...] = ()
    origins: tuple[str, ...] = Field((), description="of pages that may call (CORS), as https://example.org")

    @model_validator(mode="after")
    def _check_origins(self) -> Self:
        if EVERY in self.origins:
            raise ValueError("origins: name them; `*` would let every page in")
        return self
