"""How SDS is spoken at the edge: limits on what one connection may join, say, ask for and leave unread."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from culm_connectors.sds.wire import DEFAULT_MAX_FRAME_BYTES

ALPN = "culm/sds/1"


class SdsEdgeSettings(BaseModel):
    """Limits and sizes; rates are averages over seconds, a rate of 0 is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="serve SDS beside p2panda, at the same address")
    max_channels: int = Field(default=256, ge=1, le=65_536, description="channels that a connection may join")
    max_frame_bytes: int = Field(
        default=DEFAULT_MAX_FRAME_BYTES,
        ge=64 * 1024,
        le=3 * 1024 * 1024,
        description="the largest frame that is taken; a larger one ends the connection",
    )
    max_outbox_bytes: int = Field(
        default=8 * 1024**2, ge=64 * 1024, description="unsent bytes above which a slow peer is dropped"
    )
    write_bytes: int = Field(default=64 * 1024, ge=1024, description="written at once")
    max_staged: int = Field(default=8_192, ge=1, description="records of all peers that wait for Kafka")
    max_staged_bytes: int = Field(default=32 * 1024**2, ge=1, description="their size; one may go beyond it")
    max_staged_per_peer: int = Field(default=1_024, ge=1, description="of one connection; more is read later")
    store_batch: int = Field(default=1_024, ge=1, description="records produced at once")
    messages_per_second: float = Field(default=2_000, ge=0, description="of one peer; more are read later")
    message_burst: float = Field(default=10_000, gt=0)
    lookups_per_second: float = Field(default=500, ge=0, description="ids a peer asks for; more wait")
    lookup_burst: float = Field(default=5_000, gt=0)
    max_requests: int = Field(default=8, ge=1, description="fetches of one connection under way")
    max_catching_up: int = Field(default=8, ge=1, description="joins that read the past at a time")
    stall_timeout_s: float = Field(
        default=60.0, gt=0, description="a peer that reads none of the past that it asked for is dropped"
    )
    rejects_per_minute: float = Field(default=60.0, ge=0, description="above it the peer is disconnected")
    asked_peers: int = Field(default=3, ge=0, description="peers asked for what the store lacks")
    ask_timeout_s: float = Field(default=5.0, gt=0)
    max_job_fetches: int = Field(
        default=32, ge=1, description="requests of the job at a time; more are dropped"
    )
    job_fetch_spread_s: float = Field(
        default=0.5, ge=0, description="several connectors answer the job: each waits at random within this"
    )
    head_size: int = Field(default=16, ge=1, le=64, description="newest messages that a head names")
    head_idle_s: float = Field(default=30.0, gt=0, description="a channel silent for so long tells its head")
    tick_interval_s: float = Field(default=1.0, gt=0)
