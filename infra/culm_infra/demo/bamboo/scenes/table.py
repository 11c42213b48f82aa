"""The scenes in the order in which they are played."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from culm_infra.demo.bamboo.scenes import (
    both_ways,
    credit,
    failover,
    greedy,
    large_payload,
    live,
    payloads_later,
    small_device,
    sparse_reader,
    two_edges,
)
from culm_infra.demo.bamboo.stage import BambooStage
from culm_infra.demo.kit.figures import SceneFigures


@dataclass(frozen=True, slots=True)
class BambooScene:
    """One scene: what it is called, what it shows, and how it is played."""

    name: str
    title: str
    play: Callable[[BambooStage, SceneFigures], Awaitable[None]]


SCENES: Final = (
    BambooScene("sparse", "A sparse reader joins a long log and proves two entries", sparse_reader.play),
    BambooScene("backfill", "Entries first, the payloads of a range later", payloads_later.play),
    BambooScene("both-ways", "Two peers fill each other's gaps in one request", both_ways.play),
    BambooScene("greedy", "A corrupted payload is passed on, and apologised for", greedy.play),
    BambooScene("large", "A large payload goes on after kill -9, beside other entries", large_payload.play),
    BambooScene("live", "An open range carries new entries", live.play),
    BambooScene("credit", "Credit is exhausted, and comes back", credit.play),
    BambooScene("failover", "One of two sources falls silent", failover.play),
    BambooScene(
        "device", "A small device learns of everything, and holds next to nothing", small_device.play
    ),
    BambooScene("edges", "Logs go from peer to peer over two edges and Kafka", two_edges.play),
)
