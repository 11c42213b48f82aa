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
# Concurrent sessions of each remote that may catch up; most remotes have one or two schema sets.
_SESSIONS_A_TURN = 4


class SessionSettings(BaseModel):
    """Settings for how sessions find out what the other side is missing."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mode: Mode = Field(
        default="auto",
        description="Way in which sessions find out what is missing: `ranges` is set "
        "reconciliation, `heights` sends all log heights, `auto` takes ranges if the "
        "remote supports them.",
    )
    latency: bool = Field(default=False, description="Set reconciliation in fewer rounds, for more bytes.")
    rule: Literal["even", "upstream"] = Field(
        default="even", description="Rule by which ranges that differ are split."
    )
    lift: LiftName = Field(default="add128", description="Fingerprint in sessions that this side begins.")
    accepted_lifts: tuple[LiftName, ...] = Field(
        default=("add128", "siphash128"),
        min_length=1,
        description="Fingerprints that remotes may choose; `add64` and `xor64` cost a second at a "
        "million logs.",
    )
    compact_form: bool = Field(default=True, description="Sends binary keys to remotes that read them.")


class DriverSettings(BaseModel):
    """Limits and sizes. Rates are averages over seconds; a rate of 0 is no limit.

    A rate applies to a key across all of its connections, also if the key connects again.

    The default rates are several times what one connection can carry through one process, so they never slow
    an honest remote. Remotes share the processor in turns: a remote with much to check waits for its next
    chunk until a chunk of every other remote was checked, and at most `check_chunks_ahead` of its chunks are
    being checked.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    read_bytes: int = Field(
        default=64 * 1024,
        ge=1024,
        description="Number of bytes that are taken from a stream and decoded before other streams "
        "have a turn.",
    )
    check_chunk: int = Field(
        default=128, ge=1, le=4096, description="Number of entries that a thread checks at once."
    )
    check_chunks_ahead: int = Field(
        default=4, ge=1, le=64, description="Number of chunks of one remote that are checked concurrently."
    )
    reconciliation_chunk: int = Field(
        default=4_096, ge=1, description="Number of messages of set reconciliation that are applied at once."
    )
    write_bytes: int = Field(
        default=64 * 1024, ge=1024, description="Size of the entries that are read and written at once."
    )

    max_staged_items: int = Field(
        default=8_192, ge=1, description="Number of entries of all remotes that may wait to be stored."
    )
    max_staged_bytes: int = Field(
        default=32 * 1024**2,
        ge=1,
        description="Size of the entries of all remotes that may wait to be stored; one entry may exceed it.",
    )
    store_batch: int = Field(
        default=2_048, ge=1, description="Largest number of entries that are stored at once."
    )
    store_batch_bytes: int = Field(
        default=8 * 1024**2,
        ge=1,
        description="Largest size of the entries that are stored at once; at least one is stored.",
    )
    max_message_bytes: int = Field(
        default=MAX_MESSAGE_BYTES,
        ge=MAX_MESSAGE_BYTES,
        le=LARGEST_READ_BYTES,
        description="Largest message that is read; a larger one ends the connection. It does not "
        "change how large an operation may be.",
    )
    # Interests grow one by one while peers are connected, and each growth is a session that stays live.
    max_sessions_per_peer: int = Field(
        default=64, ge=1, le=4_096, description="Largest number of sessions with one remote."
    )
    max_catching_up: int = Field(
        default=64, ge=1, description="Number of remotes that catch up concurrently; others wait in order."
    )
    catch_up_turn_s: float = Field(
        default=30.0, gt=0, description="Time after which a remote that catches up lets another one go first."
    )
    requests_per_minute: float = Field(
        default=120.0,
        ge=0,
        description="Rate of session requests of one remote; further requests are read later. 0 "
        "means unlimited.",
    )
    burst_requests: float = Field(
        default=128,
        gt=0,
        description="Number of session requests that one remote may send at once beyond its rate.",
    )
    session_timeout_s: float = Field(
        default=60.0,
        gt=0,
        description="A session that is not live fails when nothing happens in it for this long.",
    )
    request_wait_s: float = Field(
        default=30.0, ge=0, description="Time that a request waits for the announcement of what it asks for."
    )
    messages_per_second: float = Field(
        default=50_000,
        ge=0,
        description="Rate of messages of one remote; further messages are read later. 0 means unlimited.",
    )
    burst_messages: float = Field(
        default=100_000,
        gt=0,
        description="Number of messages that one remote may send at once beyond its rate.",
    )
    control_messages_per_second: float = Field(
        default=100,
        ge=0,
        description="Rate of messages of one remote that are neither entries nor ranges. 0 means unlimited.",
    )
    burst_control_messages: float = Field(
        default=1_000,
        gt=0,
        description="Number of such messages that one remote may send at once beyond its rate.",
    )
    announcements_per_minute: float = Field(
        default=60.0,
        ge=0,
        description="Rate of announcements of one remote; further announcements are read later. 0 "
        "means unlimited.",
    )
    burst_announcements: float = Field(
        default=10,
        gt=0,
        description="Number of announcements that one remote may send at once beyond its rate.",
    )
    items_per_second: float = Field(
        default=50_000,
        ge=0,
        description="Rate of CBOR items in messages of one remote that are neither entries nor "
        "ranges. 0 means unlimited.",
    )
    burst_items: float = Field(
        default=500_000,
        gt=0,
        description="Number of such CBOR items that one remote may send at once beyond its rate.",
    )
    ranges_per_second: float = Field(
        default=100_000,
        ge=0,
        description="Rate of messages of set reconciliation of one remote; further messages are "
        "read later. 0 means unlimited.",
    )
    burst_ranges: float = Field(
        default=500_000,
        gt=0,
        description="Number of messages of set reconciliation that one remote may send at once "
        "beyond its rate.",
    )
    verifications_per_second: float = Field(
        default=50_000,
        ge=0,
        description="Rate at which entries of one remote are verified; further entries wait. 0 "
        "means unlimited.",
    )
    burst_verifications: float = Field(
        default=100_000,
        gt=0,
        description="Number of entries of one remote that are verified at once beyond its rate.",
    )
    rejects_per_minute: float = Field(
        default=60.0,
        ge=0,
        description="Rate of rejected entries above which a remote is disconnected and not served "
        "for a while. 0 means unlimited.",
    )
    rejects_pause_s: float = Field(
        default=30.0, ge=0, description="Time for which such a remote is not served."
    )
    max_keys_per_address: int = Field(
        default=10,
        ge=1,
        description="Limit of the rejected entries of one address, as a multiple of `rejects_per_minute`.",
    )
    tick_interval_s: float = Field(default=1.0, gt=0, description="Time between two checks of timeouts.")


class P2pandaSettings(BaseModel):
    """p2panda at the edge."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schemas: tuple[str, ...] = Field(
        default=("*",),
        description="Schema ids to serve; `*` adds those that peers of the connector announce and "
        "those that the index holds.",
    )
    compat: Literal["spec", "aquadoggo"] = Field(
        default="spec",
        description="Form of the protocol: `spec`, or `aquadoggo` for heights only, as its nodes "
        "expect them.",
    )
    live_mode: bool = Field(default=True, description="Keeps sessions open for new entries.")
    driver: DriverSettings = Field(
        default=DriverSettings(), description="Limits on what one peer may send and keep."
    )
    sessions: SessionSettings = Field(
        default=SessionSettings(), description="How sessions find out what the other side is missing."
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
