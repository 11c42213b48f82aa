"""Metric families from numbers that are kept elsewhere, and histograms with the same buckets everywhere.

Labels are codes and topics, never peers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, text: str, value: float) -> Metric:
    """Return a gauge with a current value."""
    return GaugeMetricFamily(name, text, value=value)


def counters(*rows: tuple[str, str, float]) -> Iterator[Metric]:
    """Return counters since the start, from rows of name, help text and value."""
    for name, text, value in rows:
        yield CounterMetricFamily(name, text, value=value)


def counter_by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Return a counter since the start, with one label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family


LATENCY_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def latency_histogram(name: str, text: str) -> Histogram:
    """Return a histogram in seconds that belongs to no registry: its owner is collected at a scrape."""
    return Histogram(name, text, buckets=LATENCY_BUCKETS_S, registry=None)
