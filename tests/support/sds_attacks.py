"""What hostile peers say in SDS channels, as frames of the edge protocol: for tests of the job and of edges.

Each generator is one attack. Edge tests say the frames over QUIC; tests of the job put what a connector makes
of them into a shard (`Shard.take`).
"""

from __future__ import annotations

from collections.abc import Iterator

from culm_connectors.sds.frames import Join


def big_filter_joins(
    count: int, *, prefix: str = "big", capacity: int = 1_000_000, error_rate: float = 1e-6
) -> Iterator[Join]:
    """Hosted joins of so many channels, each of which asks for a filter of some MiB."""
    settings: dict[str, int | float | str | bool] = {
        "bloom_capacity": capacity,
        "bloom_error_rate": error_rate,
    }
    for number in range(count):
        yield Join(f"{prefix}-{number}", "spec", f"guest-{number}", hosted=True, settings=settings)
