"""What a connector tells Prometheus: what all protocols share, and then what each of them measures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from culm_connectors.edge.health import Health, Running
from culm_connectors.edge.loop_watch import LoopWatch
from culm_connectors.edge.metric_families import gauge


class ConnectorCollector(Collector):
    """Reads the numbers where they are kept, at the time of a scrape and in the scrape's thread."""

    def __init__(self, health: Health, loop_watch: LoopWatch, running: Callable[[], Running | None]) -> None:
        self._health = health
        self._loop_watch = loop_watch
        self._running = running

    def describe(self) -> Iterator[Metric]:
        """Nothing is known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Every metric of the connector."""
        health = self._health
        yield _build_info()
        yield gauge("culm_connector_ready", "1 while /readyz answers 200", float(not health.why_not_ready()))
        running = self._running()
        if running is None:
            return
        ends = running.kafka.ends
        yield gauge("culm_kafka_up", "1 while Kafka answers", float(running.kafka.away is None))
        if (progress_s := health.last_progress_s()) is not None:
            text = "when records were last read or acknowledged, or Kafka said that there are none"
            yield gauge("culm_last_progress_timestamp_seconds", text, progress_s)
        yield from self._loop_watch.blocked.collect()
        records, size = running.producer.in_flight
        yield gauge("culm_produce_in_flight_records", "records that Kafka has not acknowledged", records)
        yield gauge("culm_produce_in_flight_bytes", "bytes that Kafka has not acknowledged", size)
        yield from running.producer.latency.collect()
        lag = GaugeMetricFamily(
            "culm_topic_lag_records",
            "records not read yet, by the brokers' own ends; none while those are not known",
            labels=["topic"],
        )
        if ends is not None:
            for reader in running.readers:
                lag.add_metric([reader.topic], reader.lag(ends.offsets))
        yield lag
        for protocol in running.protocols:
            yield from protocol.metrics()


def _build_info() -> Metric:
    family = GaugeMetricFamily("culm_build_info", "1, with the version", labels=["version"])
    family.add_metric([version("culm")], 1)
    return family
