"""Settings of Chotki at the edge: addresses, source, mode and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from culm_connectors.tls_files import TlsFiles
from culm_connectors.url import parse_url
from culm_models.chotki.compat import Compat
from culm_models.chotki.settings import ChotkiSettings as SessionTimes

ALPN = "culm/chotki/1"


class ChotkiEdgeSettings(BaseModel):
    """Chotki at the edge; nothing is served or called unless an address is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: tuple[str, ...] = Field(
        (), description="where replicas may call: tcp://, tls:// or quic://HOST:PORT"
    )
    connect: tuple[str, ...] = Field((), description="replicas to keep a connection to, by such addresses")
    source: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{1,16}$",
        description="own source in hex; by default the one it has, else a free one",
    )
    name: str = Field("", max_length=200, description="the name that this replica announces")
    mode: int = Field(7, ge=0, le=7, description="1 read, 2 write, 4 live, added up; 5 is a read-only tap")
    compat: Literal["default", "go"] = Field("default", description="go: the Go replica's own ways")
    tls: TlsFiles = Field(TlsFiles(), description="what tls:// shows, and whom it believes")
    ping_period_ms: int | None = Field(None, ge=1, description="ping after so long without a record")
    ping_wait_ms: int = Field(10_000, ge=1, description="how long a ping or a handshake is waited for")
    max_record_bytes: int = Field(134_217_728, ge=1_024, description="the largest record that is taken")
    max_sync_bytes: int = Field(
        8_589_934_592, ge=1_024, description="all of one diff, on disk until it is whole"
    )
    max_waiting_bytes: int = Field(
        16_777_216,
        ge=65_536,
        description="of one connection, in memory: not acknowledged by Kafka yet; more is on disk",
    )
    max_spool_bytes: int = Field(
        17_179_869_184,
        ge=65_536,
        description="on disk for all connections: diffs that are not whole, and what Kafka is too slow for",
    )
    max_tail_bytes: int = Field(
        4_294_967_296,
        ge=65_536,
        description="on disk: live packets that no epoch includes yet; above this no new replica is served",
    )
    max_tail_memory_bytes: int = Field(
        67_108_864, ge=1_048_576, description="of these packets so much is in memory before any is on disk"
    )
    max_parcel_bytes: int = Field(
        1_048_576, ge=1_024, description="a packet D that is sent gets no further field beyond it"
    )
    sync_cut_bytes: int = Field(
        268_435_456, ge=1, description="a diff beyond it goes in parts, each to be through in ten minutes"
    )
    deaf_check_ms: int = Field(60_000, ge=1, description="a peer that answered no ping for so long is asked")
    deaf_wait_ms: int = Field(30_000, ge=1, description="and left when it does not answer in so long")
    write_timeout_s: float = Field(
        30.0, gt=0, description="that a peer may take nothing of what waits for it; then it is left"
    )
    write_bytes_per_second: float = Field(
        8_192.0, gt=0, description="the least rate at which it takes that, behind so much time"
    )
    max_remembered_packets: int = Field(
        1_000_000, ge=0, description="ids of packets that are known again when they come again"
    )
    max_unique_values: int = Field(
        100_000, ge=1, description="values of hash-indexed fields that are watched for duplicates"
    )
    gap_s: float = Field(
        1.0, gt=0, description="end a connection this long after the job gave up the data that it sent"
    )
    rejects_per_minute: float = Field(
        60.0, gt=0, description="refused records of one principal that are written to the topic rejected"
    )
    max_connections_per_peer: int = Field(64, ge=1, description="of one principal: a key, or an address")
    connections_per_minute: float = Field(
        240.0, ge=0, description="of one principal, and as many at once; more are refused"
    )
    records_per_second: float = Field(
        8_000.0, ge=0, description="of one principal, whatever they say; more are read later"
    )
    burst_records: float = Field(100_000.0, gt=0)
    bytes_per_second: float = Field(67_108_864.0, ge=0, description="of one principal; more are read later")
    burst_bytes: float = Field(536_870_912.0, gt=0)
    sent_bytes_per_second: float = Field(
        134_217_728.0, ge=0, description="sent to one principal: who asks for a diff again and again waits"
    )
    burst_sent_bytes: float = Field(1_073_741_824.0, gt=0)
    syncs_per_second: float = Field(
        20.0, ge=0, description="handshakes of one principal, its own and those it forwards"
    )
    burst_syncs: float = Field(256.0, gt=0)
    busy_share: float = Field(
        0.4, ge=0, le=1, description="of the connector's time, that what one principal sends may take"
    )
    busy_burst_s: float = Field(
        1.0,
        gt=0,
        description="of that time, what may be saved up: Go gives up a peer that reads nothing for 1 s",
    )
    reconnect_first_s: float = Field(0.5, gt=0)
    reconnect_max_s: float = Field(60.0, gt=0)

    @field_validator("listen", "connect")
    @classmethod
    def _check_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        for url in urls:
            parse_url(url)
        return urls

    def session(self) -> SessionTimes:
        """Return the settings of the sessions."""
        times = SessionTimes.for_compat(Compat(self.compat))
        if self.compat == "default":
            times = replace(times, max_parcel_bytes=self.max_parcel_bytes, sync_cut_bytes=self.sync_cut_bytes)
        return replace(
            times,
            deaf_check_ms=self.deaf_check_ms,
            deaf_wait_ms=self.deaf_wait_ms,
            ping_period_ms=self.ping_period_ms or times.ping_period_ms,
            ping_wait_ms=self.ping_wait_ms,
            max_record_bytes=self.max_record_bytes,
            max_sync_bytes=self.max_sync_bytes,
        )
