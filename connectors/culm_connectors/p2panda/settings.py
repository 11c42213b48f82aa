"""Settings of p2panda at the edge: the mode of sessions, and how much of a process one remote may use."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from culm_models.p2panda.settings import MS_PER_S, PeerSettings
from culm_models.p2panda.wire.messages import (
    LARGEST_READ_BYTES,
    MAX_MESSAGE_BYTES,
    MODE_LOG_HEIGHT,
    MODE_SET_RECONCILIATION,
)

ALPN = "culm/p2panda/1"

Mode = Literal["auto", "ranges", "heights"]
LiftName = Literal["add128", "siphash128", "add64", "xor64"]

MODES: dict[Mode, tuple[int, ...]] = {
    "auto": (MODE_SET_RECONCILIATION, MODE_LOG_HEIGHT),
    "ranges": (MODE_SET_RECONCILIATION,),
    "heights": (MODE_LOG_HEIGHT,),
}
# Sessions that work at a time, for every remote that may catch up: most have one or two schema sets.
_SESSIONS_A_TURN = 4


class SessionSettings(BaseModel):
    """Settings for how sessions find out what the other side is missing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Field(
        default="auto",
        description="ranges: set reconciliation; heights: all log heights; auto: ranges if the remote can",
    )
    latency: bool = Field(default=False, description="set reconciliation in fewer rounds, for more bytes")
    rule: Literal["even", "upstream"] = Field(default="even", description="how ranges that differ are split")
    lift: LiftName = Field(default="add128", description="fingerprints in sessions that this side begins")
    accepted_lifts: tuple[LiftName, ...] = Field(
        default=("add128", "siphash128"),
        min_length=1,
        description="fingerprints that remotes may choose; add64 and xor64 cost a second at a million logs",
    )
    compact_form: bool = Field(default=True, description="binary keys towards remotes that read them")


class DriverSettings(BaseModel):
    """Limits and sizes; rates are averages over seconds, a rate of 0 is no limit.

    Rates hold for a key, over all of its connections one after the other.

    The default rates are several times what one connection can carry through one process, so they never slow
    an honest remote. What shares the processor among remotes are turns: one that has much to check waits for
    its next chunk until every other has had one checked, and no more than `check_chunks_ahead` are under way.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    read_bytes: int = Field(
        default=64 * 1024, ge=1024, description="taken from a stream and decoded before others have a turn"
    )
    check_chunk: int = Field(default=128, ge=1, le=4096, description="entries a thread checks at once")
    check_chunks_ahead: int = Field(default=4, ge=1, le=64, description="chunks of a remote under way")
    reconciliation_chunk: int = Field(
        default=4_096, ge=1, description="messages of set reconciliation applied at once"
    )
    write_bytes: int = Field(default=64 * 1024, ge=1024, description="entries read and written at once")

    max_staged_items: int = Field(
        default=8_192, ge=1, description="entries of all remotes that wait to be stored"
    )
    max_staged_bytes: int = Field(default=32 * 1024**2, ge=1, description="their size; one may go beyond it")
    store_batch: int = Field(default=2_048, ge=1, description="entries stored at once")
    store_batch_bytes: int = Field(
        default=8 * 1024**2, ge=1, description="their size; at least one is stored"
    )
    max_message_bytes: int = Field(
        default=MAX_MESSAGE_BYTES,
        ge=MAX_MESSAGE_BYTES,
        le=LARGEST_READ_BYTES,
        description="the largest message that is read; a larger one ends the connection. It does not change "
        "how large an operation may be",
    )
    # Interests grow one by one while peers are connected, and each growth is a session that stays live.
    max_sessions_per_peer: int = Field(default=64, ge=1, le=4_096, description="sessions with one remote")
    max_catching_up: int = Field(
        default=64, ge=1, description="remotes that catch up concurrently; others wait in order"
    )
    catch_up_turn_s: float = Field(
        default=30.0, gt=0, description="after this time a remote that catches up lets another one go first"
    )
    requests_per_minute: float = Field(
        default=120.0, ge=0, description="session requests of one remote; more are read later"
    )
    burst_requests: float = Field(default=128, gt=0)
    session_timeout_s: float = Field(
        default=60.0, gt=0, description="a session that is not live and in which nothing happens has failed"
    )
    request_wait_s: float = Field(
        default=30.0, ge=0, description="a request for what is not announced yet waits so long for that"
    )
    messages_per_second: float = Field(default=50_000, ge=0, description="of one remote; more are read later")
    burst_messages: float = Field(default=100_000, gt=0)
    control_messages_per_second: float = Field(
        default=100, ge=0, description="messages of one remote that are no entry and no range"
    )
    burst_control_messages: float = Field(default=1_000, gt=0)
    announcements_per_minute: float = Field(
        default=60.0, ge=0, description="announcements of one remote; more are read later"
    )
    burst_announcements: float = Field(default=10, gt=0)
    items_per_second: float = Field(
        default=50_000, ge=0, description="CBOR items of one remote's messages that are no entry and no range"
    )
    burst_items: float = Field(default=500_000, gt=0)
    ranges_per_second: float = Field(
        default=100_000, ge=0, description="messages of set reconciliation of one remote; more are read later"
    )
    burst_ranges: float = Field(default=500_000, gt=0)
    verifications_per_second: float = Field(default=50_000, ge=0, description="of one remote; more wait")
    burst_verifications: float = Field(default=100_000, gt=0)
    rejects_per_minute: float = Field(
        default=60.0, ge=0, description="above it the remote is disconnected, and not served for a while"
    )
    rejects_pause_s: float = Field(default=30.0, ge=0, description="how long it is not served then")
    max_keys_per_address: int = Field(
        default=10, ge=1, description="the rejects of how many keys are borne of one address"
    )
    tick_interval_s: float = Field(default=1.0, gt=0)


class P2pandaSettings(BaseModel):
    """p2panda at the edge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schemas: tuple[str, ...] = Field(
        default=("*",),
        description="schema ids to serve; `*` adds what its own peers announce and what the index holds",
    )
    compat: Literal["spec", "aquadoggo"] = Field(
        default="spec", description="aquadoggo: heights only, as its nodes expect them"
    )
    live_mode: bool = Field(default=True, description="sessions stay open for new entries")
    driver: DriverSettings = Field(
        default=DriverSettings(), description="limits on what one peer may send and keep"
    )
    sessions: SessionSettings = Field(
        default=SessionSettings(), description="how sessions find out what differs"
    )


def peer_settings(
    sessions: SessionSettings,
    driver: DriverSettings,
    *,
    live_mode: bool,
    compat: Literal["spec", "aquadoggo"] = "spec",
) -> PeerSettings:
    """Return the settings of this process's peer, which begins sessions on the links that it dialled."""
    plain = compat == "aquadoggo"
    settings = PeerSettings(
        live_mode=live_mode,
        modes=MODES["heights" if plain else sessions.mode],
        compat=compat,
        auto_sync=True,
        announce_offers=not plain,
        lift=sessions.lift,
        lifts=tuple(dict.fromkeys((sessions.lift, *sessions.accepted_lifts))),
        rule=sessions.rule,
        compact_form=sessions.compact_form,
        request_wait_ms=round(driver.request_wait_s * MS_PER_S),
        session_timeout_ms=round(driver.session_timeout_s * MS_PER_S),
        max_message_bytes=driver.max_message_bytes,
        max_sessions_per_peer=driver.max_sessions_per_peer,
        max_sessions=driver.max_catching_up * _SESSIONS_A_TURN,
    )
    return settings.for_latency() if sessions.latency else settings
