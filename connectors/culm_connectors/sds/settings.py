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

    enabled: bool = Field(default=True, description="Serves SDS at the same address as p2panda.")
    profiles: dict[str, Profile] = Field(
        default_factory=dict,
        description="Wire profiles of channels, by the channel's id or by a pattern with `*` and "
        "`?`. The first member of any other channel determines its profile.",
    )
    max_channels: int = Field(
        default=256, ge=1, le=65_536, description="Number of channels that a connection may join."
    )
    max_frame_bytes: int = Field(
        default=DEFAULT_MAX_FRAME_BYTES,
        ge=DEFAULT_MAX_FRAME_BYTES,
        le=3 * 1024 * 1024,
        description="Largest frame that is read; a larger one ends the connection.",
    )
    max_memberships: int = Field(
        default=1_024,
        ge=1,
        le=65_536,
        description="Number of channels that all connections of one key may join.",
    )
    max_connections_per_peer: int = Field(
        default=256, ge=1, description="Largest number of connections of one key."
    )
    max_outbox_bytes: int = Field(
        default=8 * 1024**2,
        ge=64 * 1024,
        description="Size of unsent data above which a slow peer is disconnected.",
    )
    max_unsent_bytes: int = Field(
        default=256 * 1024**2,
        ge=1024**2,
        description="Size of the unsent data of all peers above which the peer with the most is "
        "disconnected.",
    )
    max_unsent_past_bytes: int = Field(
        default=256 * 1024,
        ge=1024,
        description="Size of unsent data above which no more of the history is read for a peer.",
    )
    write_bytes: int = Field(
        default=64 * 1024, ge=1024, description="Number of bytes that are written at once."
    )
    max_staged_items: int = Field(
        default=8_192, ge=1, description="Number of records of all peers that may wait for Kafka."
    )
    max_staged_bytes: int = Field(
        default=32 * 1024**2,
        ge=1,
        description="Size of the records of all peers that may wait for Kafka; one record may exceed it.",
    )
    max_staged_items_per_peer: int = Field(
        default=1_024,
        ge=1,
        description="Number of records of one key that may wait for Kafka; more are read later.",
    )
    max_staged_bytes_per_peer: int = Field(
        default=8 * 1024**2, ge=1, description="Size of the records of one key that may wait for Kafka."
    )
    store_batch: int = Field(default=1_024, ge=1, description="Number of records that are produced at once.")
    messages_per_second: float = Field(
        default=2_000,
        ge=0,
        description="Rate of frames of one key, of any kind; further frames are read later. 0 means "
        "unlimited.",
    )
    burst_messages: float = Field(
        default=10_000, gt=0, description="Number of frames that one key may send at once beyond its rate."
    )
    bytes_per_second: float = Field(
        default=16 * 1024**2,
        ge=0,
        description="Rate of data of one key; more data is read later. 0 means unlimited.",
    )
    burst_bytes: float = Field(
        default=64 * 1024**2,
        gt=0,
        description="Size of the data that one key may send at once beyond its rate.",
    )
    joins_per_second: float = Field(
        default=20,
        ge=0,
        description="Rate of joins of one key; data after a further join is read later. 0 means unlimited.",
    )
    burst_joins: float = Field(
        default=1_024, gt=0, description="Number of joins of one key at once beyond its rate."
    )
    lookups_per_second: float = Field(
        default=500, ge=0, description="Rate of ids that one peer requests; more wait. 0 means unlimited."
    )
    burst_lookups: float = Field(
        default=5_000, gt=0, description="Number of ids that one peer may request at once beyond its rate."
    )
    max_requests: int = Field(default=8, ge=1, description="Number of concurrent fetches of one key.")
    max_catching_up: int = Field(
        default=8, ge=1, description="Number of peers whose history is read concurrently."
    )
    turn_s: float = Field(
        default=1.0, gt=0, description="Time for which the history of one peer is read while others wait."
    )
    stall_timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="A peer that reads nothing of what waits for it for this long is disconnected.",
    )
    rejects_per_minute: float = Field(
        default=60.0,
        ge=0,
        description="Rate of rejected messages of one key above which the peer is disconnected. 0 "
        "means unlimited.",
    )
    max_remembered_peers: int = Field(
        default=4_096, ge=0, description="Number of disconnected keys whose rates are kept in memory."
    )
    asked_peers: int = Field(
        default=3, ge=0, description="Number of peers that are asked for a message that the store is missing."
    )
    ask_timeout_s: float = Field(default=5.0, gt=0, description="Time to wait for the answer of such a peer.")
    max_job_fetches: int = Field(
        default=32, ge=1, description="Number of concurrent requests of the job; further ones are dropped."
    )
    job_fetch_spread_s: float = Field(
        default=0.5,
        ge=0,
        description="Longest random delay before a connector answers a request of the job, since "
        "several connectors answer it.",
    )
    head_size: int = Field(
        default=16,
        ge=1,
        le=64,
        description="Number of newest messages that the announcement of a channel's head names.",
    )
    head_idle_s: float = Field(
        default=30.0, gt=0, description="Time of silence after which the head of a channel is announced."
    )
    tick_interval_s: float = Field(default=1.0, gt=0, description="Time between two checks of timeouts.")

    def profile_of(self, channel_id: str) -> Profile | None:
        """The profile that a channel must have; None: its first member decides."""
        exact = self.profiles.get(channel_id)
        if exact is not None:
            return exact
        matching = (profile for name, profile in self.profiles.items() if fnmatchcase(channel_id, name))
        return next(matching, None)
