"""Settings of Bamboo Point-2-Point at the edge: addresses, flavours and limits."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_connectors.tls_files import TlsFiles
from culm_connectors.url import Url, parse_url

FlavourName = Literal["yamf", "yasmf"]
MAX_INLINE_BYTES: Final = 768 * 1024
"""Largest payload that may be in its entry's record, so that the record stays below Kafka's limit."""


class EdgeAddress(NamedTuple):
    """An address and its flavour. Without one: all flavours over QUIC (by ALPN), else the first one."""

    url: Url
    flavour: FlavourName | None


def parse_edge_address(text: str) -> EdgeAddress:
    """Parse `tcp://`, `tls://` or `quic://HOST:PORT`, optionally followed by `/yamf` or `/yasmf`.

    Raises `ValueError`.
    """
    flavours: tuple[FlavourName, ...] = ("yamf", "yasmf")
    for flavour in flavours:
        if text.endswith(f"/{flavour}"):
            return EdgeAddress(parse_url(text.removesuffix(f"/{flavour}")), flavour)
    return EdgeAddress(parse_url(text), None)


class BambooEdgeSettings(BaseModel):
    """Bamboo Point-2-Point at the edge; nothing is served or called unless an address is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: tuple[str, ...] = Field(
        (), description="where peers may call: tcp://, tls:// or quic://HOST:PORT, or with /yamf or /yasmf"
    )
    connect: tuple[str, ...] = Field((), description="peers to keep a connection to, by such addresses")
    flavours: tuple[FlavourName, ...] = Field(
        ("yamf", "yasmf"), min_length=1, description="of hashes; the first is that of TCP without a name"
    )
    tls: TlsFiles = Field(TlsFiles(), description="what tls:// shows, and whom it believes")
    policy: Path | None = Field(
        None, description="a policy.toml: which logs peers may read, write, are asked for; quotas, retention"
    )
    max_payload_age_s: float = Field(
        0.0, ge=0, description="payloads held for longer are dropped, entries stay; 0: never"
    )
    max_payload_bytes: int = Field(
        0, ge=0, description="of payloads of a flavour; of more the oldest are dropped; 0: any"
    )
    max_bytes_per_author: int = Field(
        0, ge=0, description="bytes of payloads of one author, from all peers together; 0: unlimited"
    )
    quota_bytes: int = Field(
        256 * 1024**3,
        ge=0,
        description="bytes of payloads that one principal may send in quota_period_s; 0: unlimited",
    )
    quota_entries: int = Field(
        50_000_000, ge=0, description="entries that one principal may send in quota_period_s; 0: unlimited"
    )
    quota_period_s: float = Field(86_400.0, gt=0)
    greedy: bool = Field(False, description="relay payloads between peers before they are verified")
    send_window_bytes: int = Field(65_536, ge=0, description="history for compression of what is sent")
    receive_window_bytes: int = Field(65_536, ge=0, description="and of what is received; 0: none")
    credit: int = Field(64, ge=1, description="open proposals of one connection")
    data_window_bytes: int = Field(
        262_144, ge=65_536, description="data of one connection that may be on its way (TCP and TLS)"
    )
    max_waiting_bytes: int = Field(
        262_144, ge=65_536, description="of one connection: not acknowledged by Kafka; more is not read"
    )
    max_spool_bytes: int = Field(
        16 * 1024**3, ge=1_048_576, description="on disk: parts of payloads that are not verified yet"
    )
    max_spool_bytes_per_peer: int | None = Field(
        None,
        ge=65_536,
        description="of them, those of one principal, and the largest payload; else a quarter",
    )
    max_spool_bytes_per_address: int | None = Field(
        None,
        ge=65_536,
        description="of them, those of one address, at least what one principal has; else half",
    )
    spool_expires_s: int = Field(
        86_400, ge=1, description="after the last byte that came, parts of a payload are kept for so long"
    )
    inline_payload_bytes: int = Field(
        262_144, ge=0, le=MAX_INLINE_BYTES, description="a larger payload is produced to `payloads`"
    )
    payload_wait_s: float = Field(
        10.0, gt=0, description="so long an entry waits for its payload before it is produced without it"
    )
    progress_timeout_s: float = Field(
        20.0, gt=0, description="a source that sends nothing for so long, while another has more, is replaced"
    )
    max_unclaimed_payload_bytes: int = Field(
        256 * 1024**2, ge=0, description="on disk: chunks of payloads whose entries have not arrived"
    )

    max_connections_per_peer: int = Field(64, ge=1, description="of one principal: a key, or an address")
    connections_per_minute: float = Field(
        240.0, ge=0, description="of one principal, and as many at once; more are refused"
    )
    bytes_per_second: float = Field(
        67_108_864.0, ge=0, description="of data of one principal; more is read later"
    )
    burst_bytes: float = Field(268_435_456.0, gt=0)
    frames_per_second: float = Field(
        8_192.0,
        ge=0,
        description="of one principal over TCP and TLS, each of up to 16 KiB; more are read later; 0: any",
    )
    burst_frames: float = Field(32_768.0, gt=0)
    empty_frames_per_second: float = Field(
        64.0, ge=0, description="of them, pings and others that carry nothing; more end the connection"
    )
    burst_empty_frames: float = Field(1_024.0, gt=0)
    busy_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="of a folder's thread's time, that one principal's data may take, and one address's",
    )
    busy_burst_s: float = Field(2.0, gt=0, description="of that time, what may be saved up")

    @field_validator("listen", "connect")
    @classmethod
    def _check_addresses(cls, addresses: tuple[str, ...]) -> tuple[str, ...]:
        for address in addresses:
            parse_edge_address(address)
        return addresses

    @model_validator(mode="after")
    def _check_flavours(self) -> BambooEdgeSettings:
        for text in (*self.listen, *self.connect):
            flavour = parse_edge_address(text).flavour
            if flavour is not None and flavour not in self.flavours:
                raise ValueError(f"{text}: its flavour is not one of `flavours`")
        return self

    def addresses(self, of: tuple[str, ...], flavour: FlavourName) -> list[Url]:
        """Return the addresses that serve a flavour."""
        addresses: list[Url] = []
        for url, named in map(parse_edge_address, of):
            is_every = named is None and url.scheme == "quic"
            if is_every or (named or self.flavours[0]) == flavour:
                addresses.append(url)
        return addresses
