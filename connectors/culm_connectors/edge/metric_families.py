"""Families of metrics from numbers that are kept elsewhere. Labels are codes and topics, never peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, text: str, value: float) -> Metric:
    """A value of this moment."""
    return GaugeMetricFamily(name, text, value=value)


def counters(*rows: tuple[str, str, float]) -> Iterator[Metric]:
    """Totals since the start: name, text and value of each."""
    for name, text, value in rows:
        yield CounterMetricFamily(name, text, value=value)


def counter_by(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    """Totals since the start, by a label."""
    family = CounterMetricFamily(name, text, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
