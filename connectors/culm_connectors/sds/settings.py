"""Settings of SDS at the edge: limits on what one key may join, send, request and leave unread."""

from __future__ import annotations

from fnmatch import fnmatchcase

from pydantic import BaseModel, ConfigDict, Field

from culm_models.sds.frames.codec import DEFAULT_MAX_FRAME_BYTES
from culm_models.sds.wire.messages import Profile

ALPN = "culm/sds/1"


class SdsEdgeSettings(BaseModel):
    """Limits and sizes; rates are averages over seconds, a rate of 0 is no limit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(default=True, description="serve SDS beside p2panda, at the same address")
    profiles: dict[str, Profile] = Field(
        default_factory=dict,
        description="the profile of channels, by id or a pattern with * and ?; of others the first member's",
    )
    max_channels: int = Field(default=256, ge=1, le=65_536, description="channels that a connection may join")
    max_frame_bytes: int = Field(
        default=DEFAULT_MAX_FRAME_BYTES,
        ge=DEFAULT_MAX_FRAME_BYTES,
        le=3 * 1024 * 1024,
        description="the largest frame that is read; a larger one ends the connection",
    )
    max_memberships: int = Field(
        default=1_024, ge=1, le=65_536, description="channels that all connections of one key may join"
    )
    max_connections_per_peer: int = Field(default=256, ge=1, description="connections of one key")
    max_outbox_bytes: int = Field(
        default=8 * 1024**2, ge=64 * 1024, description="unsent bytes above which a slow peer is dropped"
    )
    max_unsent_bytes: int = Field(
        default=256 * 1024**2,
        ge=1024**2,
        description="unsent bytes of all peers; above it the one with the most is dropped",
    )
    max_unsent_past_bytes: int = Field(
        default=256 * 1024, ge=1024, description="unsent bytes above which a peer's past is read no further"
    )
    write_bytes: int = Field(default=64 * 1024, ge=1024, description="written at once")
    max_staged_items: int = Field(default=8_192, ge=1, description="records of all peers that wait for Kafka")
    max_staged_bytes: int = Field(default=32 * 1024**2, ge=1, description="their size; one may go beyond it")
    max_staged_items_per_peer: int = Field(default=1_024, ge=1, description="of one key; more is read later")
    max_staged_bytes_per_peer: int = Field(default=8 * 1024**2, ge=1, description="their size, of one key")
    store_batch: int = Field(default=1_024, ge=1, description="records produced at once")
    messages_per_second: float = Field(
        default=2_000, ge=0, description="frames of one key, whatever they say; more are read later"
    )
    burst_messages: float = Field(default=10_000, gt=0)
    bytes_per_second: float = Field(default=16 * 1024**2, ge=0, description="of one key; more are read later")
    burst_bytes: float = Field(default=64 * 1024**2, gt=0)
    joins_per_second: float = Field(
        default=20, ge=0, description="of one key; what comes behind a join too many is read later"
    )
    burst_joins: float = Field(default=1_024, gt=0)
    lookups_per_second: float = Field(default=500, ge=0, description="ids a peer asks for; more wait")
    burst_lookups: float = Field(default=5_000, gt=0)
    max_requests: int = Field(default=8, ge=1, description="fetches of one key under way")
    max_catching_up: int = Field(default=8, ge=1, description="peers whose history is read concurrently")
    turn_s: float = Field(
        default=1.0, gt=0, description="while others wait, a peer's past is read for so long at once"
    )
    stall_timeout_s: float = Field(
        default=60.0, gt=0, description="a peer that reads nothing of what waits for it is dropped"
    )
    rejects_per_minute: float = Field(
        default=60.0, ge=0, description="of one key; above it the peer is disconnected"
    )
    max_remembered_peers: int = Field(
        default=4_096,
        ge=0,
        description="keys clients clients clients whose rates are remembered when they have left",
    )
    asked_peers: int = Field(
        default=3, ge=0, description="peers asked for messages that are missing in the store"
    )
    ask_timeout_s: float = Field(default=5.0, gt=0)
    max_job_fetches: int = Field(
        default=32, ge=1, description="concurrent requests of the job; further ones are dropped"
    )
    job_fetch_spread_s: float = Field(
        default=0.5, ge=0, description="several connectors answer the job: each waits at random within this"
    )
    head_size: int = Field(default=16, ge=1, le=64, description="newest messages that a head names")
    head_idle_s: float = Field(
        default=30.0, gt=0, description="after this silence the head of a channel is announced"
    )
    tick_interval_s: float = Field(default=1.0, gt=0)

    def profile_of(self, channel_id: str) -> Profile | None:
        """The profile that a channel must have; None: its first member decides."""
        exact = self.profiles.get(channel_id)
        if exact is not None:
            return exact
        matching = (profile for name, profile in self.profiles.items() if fnmatchcase(channel_id, name))
        return next(matching, None)
