"""Settings of Chotki at the edge: addresses, source, mode and limits."""

from __future__ import annotations

from dataclasses import replace
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from culm_connectors.tls_files import TlsFiles
from culm_connectors.url import Scheme, parse_url
from culm_models.chotki.compat import Compat
from culm_models.chotki.settings import ChotkiSettings as SessionTimes

ALPN = "culm/chotki/1"
DEFAULT_SCHEME: Final[Scheme] = "tcp"
"""Transport of an address without a scheme."""


class ChotkiEdgeSettings(BaseModel):
    """Chotki at the edge; nothing is served or called unless an address is given."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    listen: tuple[str, ...] = Field(
        (),
        description="Addresses on which replicas are served: HOST:PORT (over TCP), or with tcp://, tls:// or "
        "quic://.",
    )
    connect: tuple[str, ...] = Field(
        (), description="Addresses of replicas to keep a connection to, in the same form as `listen`."
    )
    source: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{1,16}$",
        description="Own source in hex. By default it is the one that the connector has, else a free one.",
        examples=["a1"],
    )
    name: str = Field("", max_length=200, description="Name that this replica announces.")
    mode: int = Field(
        7, ge=0, le=7, description="Sum of 1 (read), 2 (write) and 4 (live); 5 is a read-only tap."
    )
    compat: Literal["default", "go"] = Field(
        "default", description="Form of the protocol: `default`, or `go` as the Go replica has it."
    )
    tls: TlsFiles = Field(TlsFiles(), description="Certificates for tls:// addresses.")
    ping_period_ms: int | None = Field(
        None,
        ge=1,
        description="Time without a record after which a ping is sent. By default the form of the "
        "protocol determines it.",
        examples=[30000],
    )
    ping_wait_ms: int = Field(
        10_000, ge=1, description="Time to wait for the answer to a ping or for a handshake."
    )
    max_record_bytes: int = Field(134_217_728, ge=1_024, description="Largest record that is accepted.")
    max_sync_bytes: int = Field(
        8_589_934_592,
        ge=1_024,
        description="Largest size of one diff, which is kept on disk until it is complete.",
    )
    max_waiting_bytes: int = Field(
        16_777_216,
        ge=65_536,
        description="Size of the data of one connection in memory that Kafka has not acknowledged "
        "yet; more is kept on disk.",
    )
    max_spool_bytes: int = Field(
        17_179_869_184,
        ge=65_536,
        description="Size on disk, for all connections, of incomplete diffs and of data that waits "
        "for Kafka.",
    )
    max_tail_bytes: int = Field(
        4_294_967_296,
        ge=65_536,
        description="Size on disk of live packets that no epoch includes yet; above it no new "
        "replica is served.",
    )
    max_tail_memory_bytes: int = Field(
        67_108_864, ge=1_048_576, description="Size of those packets in memory before any is written to disk."
    )
    max_parcel_bytes: int = Field(
        1_048_576, ge=1_024, description="Size of a sent packet D above which it gets no further field."
    )
    sync_cut_bytes: int = Field(
        268_435_456,
        ge=1,
        description="Size above which a diff is sent in parts, each to be complete in ten minutes.",
    )
    deaf_check_ms: int = Field(
        60_000, ge=1, description="A peer that answered no ping for this long is asked whether it is alive."
    )
    deaf_wait_ms: int = Field(
        30_000, ge=1, description="A peer that does not answer that question for this long is disconnected."
    )
    write_timeout_s: float = Field(
        30.0,
        gt=0,
        description="A peer that reads nothing of what waits for it for this long is disconnected.",
    )
    write_bytes_per_second: float = Field(
        8_192.0,
        gt=0,
        description="Lowest rate at which a peer must read what waits for it, after the write timeout.",
    )
    max_remembered_packets: int = Field(
        1_000_000, ge=0, description="Number of ids of packets that are kept to recognise repeated packets."
    )
    max_unique_values: int = Field(
        100_000, ge=1, description="Number of values of hash-indexed fields that are watched for duplicates."
    )
    gap_s: float = Field(
        1.0,
        gt=0,
        description="A connection ends this long after the job gave up data that the connection sent.",
    )
    rejects_per_minute: float = Field(
        60.0,
        gt=0,
        description="Rate of refused records of one principal that are written to the topic `rejected`.",
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
    records_per_second: float = Field(
        8_000.0,
        ge=0,
        description="Rate of records of one principal, of any kind; further records are read later. "
        "0 means unlimited.",
    )
    burst_records: float = Field(
        100_000.0, gt=0, description="Number of records that one principal may send at once beyond its rate."
    )
    bytes_per_second: float = Field(
        67_108_864.0,
        ge=0,
        description="Rate of data of one principal; more data is read later. 0 means unlimited.",
    )
    burst_bytes: float = Field(
        536_870_912.0,
        gt=0,
        description="Size of the data that one principal may send at once beyond its rate.",
    )
    sent_bytes_per_second: float = Field(
        134_217_728.0,
        ge=0,
        description="Rate of data that is sent to one principal; a principal that requests diffs "
        "again and again waits. 0 means unlimited.",
    )
    burst_sent_bytes: float = Field(
        1_073_741_824.0,
        gt=0,
        description="Size of the data that one principal may receive at once beyond its rate.",
    )
    syncs_per_second: float = Field(
        20.0,
        ge=0,
        description="Rate of handshakes of one principal, its own and those that it forwards. 0 "
        "means unlimited.",
    )
    burst_syncs: float = Field(
        256.0, gt=0, description="Number of handshakes of one principal at once beyond its rate."
    )
    busy_share: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Share of the connector's time for the data of one principal. 0 means unlimited.",
    )
    busy_burst_s: float = Field(
        1.0,
        gt=0,
        description="Time that a principal may save up of its share; a Go replica gives up a peer "
        "that reads nothing for one second.",
    )
    reconnect_first_s: float = Field(
        0.5, gt=0, description="Pause before the first attempt to connect again."
    )
    reconnect_max_s: float = Field(
        60.0, gt=0, description="Longest pause before another attempt to connect again."
    )

    @field_validator("listen", "connect")
    @classmethod
    def _check_addresses(cls, urls: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(parse_url(url, default=DEFAULT_SCHEME)) for url in urls)

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
