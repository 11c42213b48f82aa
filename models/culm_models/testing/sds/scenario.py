"""The parameters of a simulated SDS channel: everything that its seed decides before the first message."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from culm_models.sds.settings import SdsSettings
from culm_models.sds.wire.messages import Profile

_MS_PER_H: Final = 3_600_000
_WIDE_ALLOWANCE_MS: Final = 3 * _MS_PER_H
"""With this allowance, clocks an hour ahead and an hour behind accept each other.

Beyond the allowance, content is accepted after a while and syncs never: other nodes cannot see what such a
node is missing.
"""


@dataclass(frozen=True, slots=True)
class SdsScenario:
    """Parameters of a channel. Chances are in [0, 1].

    `hosted`: the number of participants of each node. `store`: a node that has received everything answers
    fetches. `delay_ms`: the longest delay of a message. Faults happen for `faults_ms`; `pause_ms` is the mean
    time between two messages of the channel.
    """

    profile: Profile
    settings: SdsSettings
    hosted: tuple[int, ...]
    skews_ms: tuple[int, ...]
    store: bool
    loss: float
    duplication: float
    echo: float
    delay_ms: int
    faults_ms: int
    pause_ms: int
    partitions: int
    restarts: int
    forgetful: float
    """Share of restarts that lose all state."""
    ephemeral: float


def draw_scenario(
    rng: random.Random, *, most_nodes: int = 8, most_hosted: int = 6, messages: int = 100
) -> SdsScenario:
    """Draw a scenario of 2 to `most_nodes` nodes that host up to `most_hosted` participants each.

    At most about `messages` messages are written.
    """
    profile: Profile = rng.choice(("spec", "spec", "js", "nim"))
    nodes = rng.randint(2, most_nodes)
    skew_ms = rng.choice((0, 5_000, _MS_PER_H // 2, _MS_PER_H))
    faults_ms = rng.choice((60_000, 300_000, 1_200_000))
    return SdsScenario(
        profile=profile,
        settings=draw_settings(rng, profile, wide=skew_ms == _MS_PER_H),
        hosted=tuple(rng.choice((1, 1, 1, rng.randint(2, most_hosted))) for _ in range(nodes)),
        skews_ms=tuple(rng.randint(-skew_ms, skew_ms) for _ in range(nodes)),
        store=rng.random() < 0.6,
        loss=rng.choice((0.0, 0.1, 0.3, 0.5)),
        duplication=rng.choice((0.0, 0.1, 0.5)),
        echo=rng.choice((0.0, 1.0)),
        delay_ms=rng.choice((20, 500, 5_000, 40_000)),
        faults_ms=faults_ms,
        pause_ms=max(rng.choice((1_000, 5_000, 15_000)), faults_ms // messages),
        partitions=rng.choice((0, 0, 1, 3)),
        restarts=rng.choice((0, 0, 2, 5)),
        forgetful=rng.choice((0.0, 0.3)),
        ephemeral=0.0 if profile == "nim" else rng.choice((0.0, 0.2)),
    )


def draw_settings(rng: random.Random, profile: Profile, *, wide: bool) -> SdsSettings:
    """Draw settings that all participants of the channel share."""
    defaults = SdsSettings.for_profile(profile)
    return SdsSettings(
        causal_history_size=rng.choice((1, 2, 10, 10)),
        # Small, so that filters start over, but far larger than what a node can be behind, as in practice.
        bloom_capacity=rng.choice((400, 2_000)),
        sync_messages=defaults.sync_messages,
        sync_ack_ms=rng.choice((0, 1_000)),
        repair_t_max_ms=defaults.repair_t_max_ms,
        repair_groups=rng.choice((1, 1, 3)),
        fetch_first_ms=rng.choice((0, 2_000)),
        lamport_allowance_ms=_WIDE_ALLOWANCE_MS if wide else defaults.lamport_allowance_ms,
    )
