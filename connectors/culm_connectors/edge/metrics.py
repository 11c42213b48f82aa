"""Metrics of a connector for Prometheus: of the process, shared by protocols, and of each protocol alone."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import version

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from culm_connectors import metric_families
from culm_connectors.edge.health import Health, Running
from culm_connectors.edge.protocol_metrics import LABEL, NO_PROTOCOL, ProtocolMetrics, counter_by, families
from culm_connectors.followed_file import FollowedFile
from culm_connectors.metric_families import gauge

_INTERVAL_S = 0.02
_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class LoopWatch:
    """Measures how long single turns of the event loop keep everything else waiting.

    A turn that computes for a long time delays every connection. To distinguish it from a busy machine, only
    the processor time counts that the loop's own thread used while its timer was overdue.

    `run` must be running. `blocked` is in seconds, with one observation per timer (50 a second at rest).
    """

    def __init__(self) -> None:
        self.blocked = Histogram(
            "culm_event_loop_blocked_seconds",
            "processor time by which the event loop was late for a timer",
            buckets=_BUCKETS_S,
            registry=None,
        )

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            begun_s, used_s = time.monotonic(), time.thread_time()
            await asyncio.sleep(_INTERVAL_S)
            late_s = time.monotonic() - begun_s - _INTERVAL_S
            self.blocked.observe(max(0.0, min(late_s, time.thread_time() - used_s)))


class ConnectorCollector(Collector):
    """Reads the numbers from their owners, at the time of a scrape and in the scrape's thread."""

    def __init__(
        self,
        health: Health,
        loop_watch: LoopWatch,
        running: Callable[[], Running | None],
        files: Callable[[], Iterable[FollowedFile]] = tuple,
    ) -> None:
        self._health = health
        self._loop_watch = loop_watch
        self._running = running
        self._files = files

    def describe(self) -> Iterator[Metric]:
        """Return nothing: the metrics are not known before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """Return every metric of the connector."""
        health = self._health
        yield _build_info()
        yield gauge("culm_connector_ready", "1 while /readyz answers 200", float(not health.why_not_ready()))
        running = self._running()
        of_protocols = () if running is None else _files_of(running)
        yield from file_families((*self._files(), *of_protocols))
        if running is None:
            return
        yield gauge("culm_kafka_up", "1 while Kafka answers", float(running.kafka.away is None))
        if (progress_s := health.last_progress_s()) is not None:
            text = "when records were last read or acknowledged, or Kafka reported that there are none"
            yield gauge("culm_last_progress_timestamp_seconds", text, progress_s)
        yield from self._loop_watch.blocked.collect()
        records, size = running.producer.in_flight
        yield gauge("culm_produce_in_flight_records", "records that Kafka has not acknowledged", records)
        yield gauge("culm_produce_in_flight_bytes", "bytes that Kafka has not acknowledged", size)
        yield from running.producer.latency.collect()
        lag = GaugeMetricFamily(
            "culm_topic_lag_records",
            "records not read yet, by the brokers' end offsets; no value while these are not known",
            labels=[LABEL, "topic"],
        )
        for name, protocol in running.protocols.items():
            for topic, unread in (running.lag(protocol) or {}).items():
                lag.add_metric([name, topic], unread)
        yield lag
        yield metric_families.counter_by(
            "culm_datagrams_refused",
            "first datagrams of QUIC for which no connection was opened, by reason",
            "reason",
            running.doors.datagrams_refused,
        )
        produced = running.producer.produced
        yield metric_families.counter_by(
            "culm_produced_records", "records that Kafka has acknowledged, by topic", "topic", produced
        )
        for service in running.services:
            yield from service.metrics()
        yield from _of_protocols(running)
        for protocol in running.protocols.values():
            yield from protocol.metrics()


def _of_protocols(running: Running) -> Iterator[Metric]:
    """Return the metrics that protocols share."""
    measured = {name: protocol.measured() for name, protocol in running.protocols.items()}
    refused, closed = connection_counts(running, measured)
    yield from families(measured)
    yield counter_by(
        "culm_connections_refused", "connections that were turned away, by reason", "reason", refused
    )
    yield counter_by(
        "culm_connections_closed", "connections that this side ended later, by reason", "reason", closed
    )


def _files_of(running: Running) -> Iterator[FollowedFile]:
    """Return the certificates that doors and protocols serve."""
    yield from running.doors.files
    for protocol in running.protocols.values():
        yield from protocol.measured().files


def file_families(files: Iterable[FollowedFile]) -> Iterator[Metric]:
    """Return the families of files; a file that several doors use has one sample, the worst."""
    in_force: dict[str, bool] = {}
    expiry_s: dict[str, float] = {}
    for file in files:
        path = str(file.path)
        in_force[path] = file.is_in_force and in_force.get(path, True)
        if file.expires_s is not None:
            expiry_s[path] = min(file.expires_s, expiry_s.get(path, file.expires_s))
    states = GaugeMetricFamily(
        "culm_file_in_force",
        "1 while the latest content of a file is in force; 0 while the previous one stays for an error",
        labels=["file"],
    )
    for path, is_in_force in in_force.items():
        states.add_metric([path], float(is_in_force))
    yield states
    ends = GaugeMetricFamily(
        "culm_certificate_expiry_timestamp_seconds",
        "when the first certificate of a served chain expires",
        labels=["file"],
    )
    for path, expires_s in expiry_s.items():
        ends.add_metric([path], expires_s)
    yield ends


def connection_counts(
    running: Running, measured: Mapping[str, ProtocolMetrics]
) -> tuple[dict[str, Counter[str]], dict[str, Counter[str]]]:
    """Return refused and closed connections by protocol and reason: those of its doors and its own."""
    of_door = {door.name: name for name, protocol in running.protocols.items() for door in protocol.doors}
    refused = {name: Counter(metrics.refused) for name, metrics in measured.items()}
    closed = {name: Counter(metrics.closed) for name, metrics in measured.items()}
    for counts, counted in ((refused, running.doors.refused), (closed, running.doors.closed)):
        for (door, reason), count in counted.items():
            counts.setdefault(of_door.get(door, NO_PROTOCOL), Counter())[reason] += count
    return refused, closed


def _build_info() -> Metric:
    family = GaugeMetricFamily("culm_build_info", "1, with the version", labels=["version"])
    family.add_metric([version("culm")], 1)
    return family
