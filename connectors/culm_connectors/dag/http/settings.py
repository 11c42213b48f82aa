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

    max_connections: int = Field(
        1_024, ge=1, description="Number of connections that are served at the same time."
    )
    max_connections_per_address: int = Field(
        64, ge=1, description="Number of connections from one address that are served at the same time."
    )
    max_waiting_connections: int = Field(
        512,
        ge=0,
        description="Number of accepted connections that may wait until another one is closed; "
        "further ones are reset.",
    )
    max_waiting_connections_per_address: int = Field(
        256, ge=0, description="Number of accepted connections from one address that may wait."
    )
    head_timeout_s: float = Field(
        15.0, gt=0, description="Time in which a connection must send the head of its next request."
    )
    write_timeout_s: float = Field(
        30.0,
        gt=0,
        description="A client that reads nothing of what waits for it for this long is disconnected.",
    )
    write_bytes_per_second: float = Field(
        8_192.0,
        gt=0,
        description="Lowest rate at which a client must read what waits for it, after the write timeout.",
    )
    parts_per_second: float = Field(
        2_048.0,
        ge=0,
        description="Rate of heads, chunks and ends of requests of one address, each of up to 64 "
        "KiB; more are read later. 0 means unlimited.",
    )
    burst_parts: float = Field(
        8_192.0, ge=1, description="Number of such parts that one address may send at once beyond its rate."
    )

    max_clients: int = Field(65_536, ge=1, description="Number of clients whose rates are kept in memory.")
    requests_per_second: float = Field(
        200.0, ge=0, description="Rate of requests of one client. 0 means unlimited."
    )
    burst_requests: float = Field(
        1_000.0, ge=1, description="Number of requests that one client may send at once beyond its rate."
    )
    request_wait_s: float = Field(
        5.0,
        ge=0,
        description="Longest time that a request above the rate waits; one that would have to wait "
        "longer gets status 429.",
    )
    max_waiting_per_client: int = Field(
        256,
        ge=0,
        description="Number of requests of one client that may wait to read or to send a body; "
        "further ones get status 429.",
    )

    max_reads: int = Field(
        64, ge=1, description="Number of concurrent reads of blocks, files and missing nodes."
    )
    max_reads_per_client: int = Field(
        16, ge=1, description="Number of concurrent reads of one client; more wait."
    )
    walk_blocks: int = Field(
        131_072,
        ge=1,
        description="Number of blocks and links that one CAR or one page of a directory may traverse.",
    )
    max_heads: int = Field(1_000, ge=1, description="Number of links in one request for missing nodes.")

    max_bodies: int = Field(
        32,
        ge=1,
        description="Number of bodies that are received at the same time; each may fill the memory "
        "of a part.",
    )
    max_bodies_per_client: int = Field(
        8, ge=1, description="Number of bodies of one client that are received at the same time; more wait."
    )
    max_body_bytes: int = Field(
        PART_BYTES, ge=PART_BYTES, description="Largest body of a request other than a part."
    )
    body_grace_s: float = Field(15.0, gt=0, description="Time after which the lowest rate of a body applies.")
    body_bytes_per_second: float = Field(
        8_192.0, gt=0, description="Lowest rate at which a client must send a body, after the grace time."
    )
    bytes_per_second: float = Field(
        67_108_864.0,
        ge=0,
        description="Rate of bodies of one client; more data is read later. 0 means unlimited.",
    )
    burst_bytes: float = Field(
        268_435_456.0,
        ge=PART_BYTES,
        description="Size of bodies that one client may send at once beyond its rate.",
    )

    max_event_streams: int = Field(1_024, ge=1, description="Number of open streams of events.")
    max_event_streams_per_client: int = Field(
        8, ge=1, description="Number of open streams of events of one client."
    )
    events_every_s: float = Field(
        0.25, gt=0, description="Shortest time between two lookups of an id that streams of events follow."
    )
    max_event_looks_per_second: float = Field(
        256.0,
        gt=0,
        description="Rate of lookups of all such ids; with more ids each one is looked up less often.",
    )
    heartbeat_s: float = Field(
        15.0, gt=0, description="Time after which a stream of events without an event sends a heartbeat."
    )


class DoorTls(BaseModel):
    """PEM files of the door's certificate and its key."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path = Field(
        description="PEM file of the own certificate, followed by its chain.", examples=["/etc/culm/http.pem"]
    )
    private_key: Path = Field(
        description="PEM file of the private key of the certificate.", examples=["/etc/culm/http.key"]
    )


class TokenRule(BaseModel):
    """Rights of the bearer of one configured token: spaces in hex, or `*` for all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(
        pattern="^[0-9a-f]{64}$",
        description="SHA-256 of the token's text in hex; the text itself is stored nowhere.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    )
    append: tuple[str, ...] = Field(
        (),
        description="Spaces in which the bearer may send nodes and shards, in hex; `*` stands for "
        "all spaces.",
    )
    read: tuple[str, ...] = Field(
        (), description="Spaces that the bearer may read, in hex; `*` stands for all spaces."
    )

    @field_validator("append", "read")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if space != EVERY and _SPACE.fullmatch(space) is None:
                raise ValueError(f"{space}: neither 64 hex digits nor *")
        return tuple(space.lower() for space in spaces)


class DagHttpSettings(DoorLimits):
    """The HTTP door: its address, access rules and limits."""

    host: str = Field("127.0.0.1", description="Host on which the door is served.")
    port: int = Field(0, ge=0, le=65_535, description="Port of the door; 0 takes a free one.")
    tls: DoorTls | None = Field(
        None, description="Certificate of the door. Without it the door serves plain HTTP."
    )
    append: AccessMode = Field(
        "allowed",
        description="Who may send nodes and shards: `anyone`, `allowed` (clients with tokens), or "
        "`ucan` (holders of a UCAN, too).",
    )
    read: AccessMode = Field(
        "allowed",
        description="Who may read: `anyone`, `allowed` (clients with tokens), or `ucan` (holders of "
        "a UCAN, too).",
    )
    tokens: tuple[TokenRule, ...] = Field((), description="Rights of the bearer of a token.")
    origins: tuple[str, ...] = Field(
        (), description="Origins of web pages that may use the door (CORS), such as https://example.org."
    )

    @model_validator(mode="after")
    def _check_origins(self) -> Self:
        if EVERY in self.origins:
            raise ValueError("origins: name them; `*` would let every page in")
        return self
