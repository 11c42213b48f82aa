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
        (),
        description="Addresses on which peers are served: tcp://, tls:// or quic://HOST:PORT, "
        "optionally followed by /yamf or /yasmf.",
    )
    connect: tuple[str, ...] = Field(
        (), description="Addresses of peers to keep a connection to, in the same form as `listen`."
    )
    flavours: tuple[FlavourName, ...] = Field(
        ("yamf", "yasmf"),
        min_length=1,
        description="Flavours of hashes that are served; the first is that of TCP and TLS addresses "
        "without a flavour.",
    )
    tls: TlsFiles = Field(TlsFiles(), description="Certificates for tls:// addresses.")
    policy: Path | None = Field(
        None,
        description="TOML file with the rules of logs: which ones peers may read and write, which "
        "are requested, quotas, retention.",
        examples=["/etc/culm/policy.toml"],
    )
    max_payload_age_s: float = Field(
        0.0,
        ge=0,
        description="Payloads that have been held for longer are dropped; their entries stay. 0 "
        "means unlimited.",
    )
    max_payload_bytes: int = Field(
        0,
        ge=0,
        description="Largest size of the payloads of a flavour; above it the oldest are dropped. 0 "
        "means unlimited.",
    )
    max_bytes_per_author: int = Field(
        0, ge=0, description="Size of the payloads of one author, from all peers together. 0 means unlimited."
    )
    quota_bytes: int = Field(
        256 * 1024**3,
        ge=0,
        description="Size of the payloads that one principal may send in `quota_period_s`. 0 means "
        "unlimited.",
    )
    quota_entries: int = Field(
        50_000_000,
        ge=0,
        description="Number of entries that one principal may send in `quota_period_s`. 0 means unlimited.",
    )
    quota_period_s: float = Field(86_400.0, gt=0, description="Period of the two quotas.")
    greedy: bool = Field(False, description="Relays payloads between peers before they are verified.")
    send_window_bytes: int = Field(
        65_536, ge=0, description="History for the compression of sent data; 0 means no compression."
    )
    receive_window_bytes: int = Field(
        65_536, ge=0, description="History for the compression of received data; 0 means no compression."
    )
    credit: int = Field(64, ge=1, description="Number of open proposals of one connection.")
    data_window_bytes: int = Field(
        262_144, ge=65_536, description="Size of the data of one TCP or TLS connection that may be in flight."
    )
    max_waiting_bytes: int = Field(
        262_144,
        ge=65_536,
        description="Size of the data of one connection that Kafka has not acknowledged yet; more "
        "data is not read.",
    )
    max_spool_bytes: int = Field(
        16 * 1024**3,
        ge=1_048_576,
        description="Size on disk of the parts of payloads that are not verified yet.",
    )
    max_spool_bytes_per_peer: int | None = Field(
        None,
        ge=65_536,
        description="Size of the unverified parts from one principal, which is also the largest "
        "payload. By default it is a quarter of the spool.",
        examples=[4294967296],
    )
    max_spool_bytes_per_address: int | None = Field(
        None,
        ge=65_536,
        description="Size of the unverified parts from one address, at least the share of one "
        "principal. By default it is half of the spool.",
        examples=[8589934592],
    )
    spool_expires_s: int = Field(
        86_400, ge=1, description="Time after the last received byte for which parts of a payload are kept."
    )
    inline_payload_bytes: int = Field(
        262_144,
        ge=0,
        le=MAX_INLINE_BYTES,
        description="Size above which a payload is produced to the topic `payloads` instead of with "
        "its entry.",
    )
    payload_wait_s: float = Field(
        10.0, gt=0, description="Time that an entry waits for its payload before it is produced without it."
    )
    progress_timeout_s: float = Field(
        20.0,
        gt=0,
        description="A source that sends nothing for this long while another one has more is replaced.",
    )
    max_unclaimed_payload_bytes: int = Field(
        256 * 1024**2,
        ge=0,
        description="Size on disk of the chunks of payloads whose entries have not arrived.",
    )

    max_connections_per_peer: int = Field(
        64, ge=1, description="Largest number of connections of one principal: a key or an address."
    )
    connections_per_minute: float = Field(
        240.0,
        ge=0,
        description="Rate of new connections of one principal, and the number at once; more are "
        "refused. 0 means unlimited.",
    )
    bytes_per_second: float = Field(
        67_108_864.0,
        ge=0,
        description="Rate of data of one principal; more data is read later. 0 means unlimited.",
    )
    burst_bytes: float = Field(
        268_435_456.0,
        gt=0,
        description="Size of the data that one principal may send at once beyond its rate.",
    )
    frames_per_second: float = Field(
        8_192.0,
        ge=0,
        description="Rate of frames of one principal over TCP and TLS, each of up to 16 KiB; more "
        "are read later. 0 means unlimited.",
    )
    burst_frames: float = Field(
        32_768.0, gt=0, description="Number of frames that one principal may send at once beyond its rate."
    )
    empty_frames_per_second: float = Field(
        64.0,
        ge=0,
        description="Rate of pings and other frames without content of one principal; more end the "
        "connection. 0 means unlimited.",
    )
    burst_empty_frames: float = Field(
        1_024.0,
        gt=0,
        description="Number of such frames that one principal may send at once beyond its rate.",
    )
    busy_share: float = Field(
        0.5,
        ge=0,
        le=1,
        description="Share of a folder thread's time for the data of one principal, and of one "
        "address. 0 means unlimited.",
    )
    busy_burst_s: float = Field(2.0, gt=0, description="Time that a principal may save up of its share.")

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
