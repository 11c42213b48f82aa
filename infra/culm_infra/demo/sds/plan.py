"""The channels of the demo, their participants, and the messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile

PROFILES: tuple[Profile, ...] = ("spec", "js", "nim")
EDGES = ("west", "east")
_NAMES = ("ada", "ben", "cem", "dia", "eli", "fay", "gus", "hui", "ivo", "joy", "kai", "lea")
MAX_PARTICIPANTS = len(_NAMES)
_HOSTED_EVERY = 2
_WHO = ("the crew", "nobody", "the harbour", "my neighbour", "the night shift", "somebody")
_DOES = ("has seen", "repaired", "forgot", "asks for", "counted", "brought back")
_WHAT = ("the red lamp", "two ropes", "the tide table", "a kettle", "the spare key", "all oars")

SETTINGS: dict[str, Any] = {
    "causal_history_size": 4,
    "resend_unacknowledged_ms": 2_000,
    "resend_possibly_acknowledged_ms": 5_000,
    "resend_max_ms": 8_000,
    "resend_attempts": 40,
    "fetch_retry_ms": 2_000,
    "fetch_max_ms": 5_000,
    "sync_floor_ms": 1_500,
    "sync_spread_ms": 1_000,
    "repair_t_min_ms": 1_000,
    "repair_t_max_ms": 3_000,
}
"""Periods of seconds instead of the defaults' half minutes, so that the demo ends soon."""


@dataclass(frozen=True, slots=True)
class ParticipantRole:
    """One participant in one channel: a full one with its own state, or one that the pipeline hosts."""

    channel_id: str
    profile: Profile
    participant_id: str
    hosted: bool
    edge: int

    @property
    def name(self) -> str:
        """Name in the demo's output."""
        return f"{self.channel_id}/{self.participant_id}"


def make_roles(participants: int) -> list[ParticipantRole]:
    """Return a channel for each profile with so many participants, every second one hosted, at both edges."""
    return [
        ParticipantRole(
            channel_id=f"demo-{profile}",
            profile=profile,
            participant_id=name,
            hosted=number % _HOSTED_EVERY == 1,
            edge=number // _HOSTED_EVERY % len(EDGES),
        )
        for profile in PROFILES
        for number, name in enumerate(_NAMES[:participants])
    ]


def settings_of(profile: Profile) -> SdsSettings:
    """Return the settings of full participants; hosted participants join with the same settings."""
    return replace(SdsSettings.for_participants(profile), **SETTINGS)


def lines(seed: int) -> Iterator[str]:
    """Yield small sentences without end. Repeated sentences must be separate messages."""
    chance = random.Random(seed)
    while True:
        yield f"{chance.choice(_WHO)} {chance.choice(_DOES)} {chance.choice(_WHAT)}"
