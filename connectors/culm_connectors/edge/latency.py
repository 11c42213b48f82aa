"""Histograms of latencies, with the same buckets everywhere."""

from __future__ import annotations

from prometheus_client import Histogram

_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def latency_histogram(name: str, text: str) -> Histogram:
    """A histogram in seconds that belongs to no registry: whoever keeps it is asked at a scrape."""
    return Histogram(name, text, buckets=_BUCKETS_S, registry=None)
