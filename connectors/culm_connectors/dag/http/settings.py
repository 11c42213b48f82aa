"""How the HTTP door is served: bounds, budgets, tokens, and who may do what without one."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_models.dag.wire.messages import CHUNK_SIZE

PART_BYTES: Final = 4 * CHUNK_SIZE
"""The most of a shard in one request: below the limits of serverless hosts."""
EVERY: Final = "*"
Mode = Literal["anyone", "allowed", "ucan"]


class DoorTls(BaseModel):
    """PEM files of what the door shows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path = Field(description="own certificate and the chain behind it")
    private_key: Path


class TokenRule(BaseModel):
    """What the bearer of one configured token may do: spaces in hex, or `*` for all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="of the token's text, which is kept nowhere")
    append: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @field_validator("append", "read")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if space != EVERY and len(bytes.fromhex(space)) != 32:
                raise ValueError(f"{space}: neither 64 hex digits nor *")
        return tuple(space.lower() for space in spaces)


class DagHttpSettings(BaseModel):
    """The HTTP door; every bound is of one process, and `client` is a token, or else an address."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535, description="0: one that is free")
    tls: DoorTls | None = Field(None, description="without it the door speaks plain HTTP")
    append: Mode = Field(
        "allowed", description="who may bring nodes and shards: anyone, tokens, or UCANs too"
    )
    read: Mode = Field("allowed", description="who may read: anyone, tokens, or UCANs too")
    tokens: tuple[TokenRule, ...] = ()
    origins: tuple[str, ...] = Field((), description="of pages that may call (CORS), as https://example.org")
    max_body_bytes: int = Field(PART_BYTES, ge=PART_BYTES, description="of any other body than a part")
    max_heads: int = Field(1_000, ge=1, description="that one question of what is lacking may name")
    max_bodies: int = Field(32, ge=1, description="that are taken at once: each may fill a part's memory")
    max_bodies_per_client: int = Field(8, ge=1, description="of them; more wait")
    max_reads: int = Field(64, ge=1, description="of blocks, files and what is lacking, at once")
    max_reads_per_client: int = Field(16, ge=1)
    walk_blocks: int = Field(131_072, ge=1, description="and links that one CAR or directory may go through")
    body_grace_s: float = Field(15.0, gt=0, description="before the least rate of a body counts")
    body_bytes_per_second: float = Field(8_192.0, gt=0, description="the least rate, behind the grace")
    head_timeout_s: float = Field(15.0, gt=0, description="for a connection to say its next request whole")
    write_timeout_s: float = Field(30.0, gt=0, description="for a client to take what is waiting for it")
    max_connections: int = Field(1_024, ge=1)
    max_connections_per_address: int = Field(64, ge=1)
    requests_per_second: float = Field(200.0, ge=0, description="of a client; 0: any")
    burst_requests: float = Field(1_000.0, ge=1)
    bytes_per_second: float = Field(
        67_108_864.0, ge=0, description="of bodies of a client; more is read later"
    )
    burst_bytes: float = Field(268_435_456.0, ge=PART_BYTES)
    max_clients: int = Field(65_536, ge=1, description="that are remembered")
    max_event_streams: int = Field(1_024, ge=1)
    max_event_streams_per_client: int = Field(8, ge=1)
    events_every_s: float = Field(0.25, gt=0, description="a stream looks again no sooner than after so long")
    heartbeat_s: float = Field(15.0, gt=0, description="of a stream of events that has nothing to say")

    @model_validator(mode="after")
    def _check_origins(self) -> Self:
        if EVERY in self.origins:
            raise ValueError("origins: name them; `*` would let every page in")
        return self
