"""What a simulated tree of replicas is like: everything that its seed decides before the first change."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from culm_models.chotki.compat import Compat
from culm_models.chotki.packets.handshake import LIVE, MODE_MAX, READ, WRITE
from culm_models.chotki.settings import ChotkiSettings


@dataclass(frozen=True, slots=True)
class Scenario:
    """`parents`: of every replica but the first, the one it dials. Chances are in [0, 1], per step."""

    parents: tuple[int, ...]
    compats: tuple[Compat, ...]
    settings: tuple[ChotkiSettings, ...]
    steps: int
    piece_bytes: tuple[int, ...]
    """The most bytes that arrive at a time."""
    delay_ms: int
    """The longest way of a piece; a step takes about 5 ms."""
    connect: float
    cut: float
    change: float
    pause: float
    pause_ms: int
    restart: float
    odd_modes: float
    """The share of connections that are one-shot or one-way."""
    leap: float
    """The share of changes before which a source leaves the rest of its block unused."""


def draw_scenario(rng: random.Random, *, steps: int = 600) -> Scenario:
    """A tree of 2 to 20 replicas: some imitate Go, or all, or none."""
    count = rng.randint(2, rng.choice((3, 6, 20)))
    depth_one = rng.random() < 0.2
    parents = tuple(0 if depth_one else rng.randrange(number) for number in range(1, count))
    share = rng.choice((0.0, 0.0, 0.5, 1.0))
    compats = tuple(Compat.GO if rng.random() < share else Compat.DEFAULT for _ in range(count))
    return Scenario(
        parents=parents,
        compats=compats,
        settings=tuple(draw_settings(rng, compat) for compat in compats),
        steps=steps + 30 * count,
        piece_bytes=rng.choice(((1, 4, 7), (1, 20, 60), (1, 100, 400), (1, 400, 100_000))),
        delay_ms=rng.choice((2, 10, 100)),
        connect=rng.choice((0.05, 0.2)),
        cut=rng.choice((0.0, 0.01, 0.05)),
        change=rng.choice((0.05, 0.2, 0.4)),
        pause=rng.choice((0.01, 0.05)),
        pause_ms=rng.choice((100, 5_000, 25_000)),
        restart=rng.choice((0.0, 0.005)),
        odd_modes=rng.choice((0.0, 0.3)),
        leap=rng.choice((0.0, 0.05)),
    )


def draw_settings(rng: random.Random, compat: Compat) -> ChotkiSettings:
    """Settings of one replica: bounds so small that they are met."""
    settings = ChotkiSettings.for_compat(compat)
    return replace(
        settings,
        max_parcel_bytes=rng.choice((1, 60, 300, settings.max_parcel_bytes)),
        sync_cut_bytes=rng.choice((1, 100, 1_000, settings.sync_cut_bytes)),
        max_open_syncs=rng.choice((4, settings.max_open_syncs)),
        sync_expiry_ms=rng.choice((40_000, settings.sync_expiry_ms)),
    )


def draw_mode(rng: random.Random, odd: float) -> int:
    """The mode of one end of a connection."""
    if rng.random() >= odd:
        return MODE_MAX
    return rng.choice((READ | WRITE, READ | LIVE, READ, WRITE, WRITE | LIVE, LIVE, 0))
