"""What every protocol has is one family with the label `protocol`; what one has alone bears its name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics import parser as openmetrics_parser
from prometheus_client.parser import text_string_to_metric_families

from culm_connectors.edge.access import AccessList
from culm_connectors.edge.doors import Door, Doors, QuicDoor, TcpDoor
from culm_connectors.edge.health import Health, Running
from culm_connectors.edge.metrics import ConnectorCollector, LoopWatch
from culm_connectors.edge.opening.shared_services import SharedServices
from culm_connectors.edge.protocol_metrics import Durations, ProtocolMetrics, SessionMetrics, added, families
from culm_connectors.edge.serving import Ending, ProtocolStatus
from culm_connectors.kafka import BatchProducer, KafkaHealth, TopicReader
from culm_connectors.kafka.health import Ends
from culm_connectors.metric_families import LATENCY_BUCKETS_S
from culm_connectors.protocols import PROTOCOLS
from culm_connectors.transport import CloseCode, ConnectError, Connection, Refusal
from culm_connectors.transport.errors import TransportError
from culm_connectors.transport.interface import ByteChannel
from culm_connectors.transport.principal import Principal
from culm_connectors.transport.quic import connect
from culm_connectors.transport.tcp.dial import connect_tcp
from culm_connectors.transport.tcp.settings import TcpSettings
from tests.support.connectors.quic import LOOPBACK, identity, quick_settings
from tests.support.freeze import frozen
from tests.support.process.waiting import until

ROOT = Path(__file__).resolve().parents[2]
NAMES = tuple(entry.name for entry in PROTOCOLS)
CONNECTORS = ROOT / "connectors" / "culm_connectors"
STREAMING = ROOT / "streaming" / "culm_streaming"


def literals(folder: Path) -> set[str]:
    """The names of families that a folder's modules write out."""
    words: set[str] = set()
    for path in folder.rglob("*.py"):
        words |= set(re.findall(r'"(culm_[a-z0-9_]+)"', path.read_text()))
    return {name for name in words if not name.startswith(("culm_connectors", "culm_models", "culm_topics"))}


@pytest.mark.parametrize("name", NAMES)
def test_the_families_of_one_protocol_begin_with_its_name(name: str) -> None:
    families = literals(CONNECTORS / name)
    assert all(family.startswith(f"culm_{name}_") for family in families)


def test_shared_services_name_no_family_of_a_protocol() -> None:
    shared = [path for path in CONNECTORS.iterdir() if path.is_dir() and path.name not in NAMES]
    families = set().union(*map(literals, shared))
    assert "culm_connections" in families
    assert not [family for family in families if family.startswith(tuple(f"culm_{name}_" for name in NAMES))]


@pytest.mark.parametrize("told_by", ["connector", "jobs"])
def test_a_family_has_the_label_or_a_protocol_s_name_or_is_of_a_shared_service(told_by: str) -> None:
    """And a counter ends in `_total`, as nothing else does."""
    shared = [CONNECTORS / "edge", CONNECTORS / "kafka", CONNECTORS / "logs", STREAMING]
    plain = set().union(*map(literals, shared))
    for line in (frozen.FIXTURES / f"metrics-of-{told_by}.txt").read_text().splitlines():
        name, kind, labels = line.split()
        is_labelled = "protocol" in labels.split(",")
        is_named = name.startswith(tuple(f"culm_{name}_" for name in NAMES))
        assert not (is_labelled and is_named)
        assert is_named or name.removesuffix("_total") in plain
        assert (kind == "counter") == name.endswith("_total")


def samples(metrics: Iterator[Metric], name: str) -> dict[tuple[str, ...], float]:
    """Values by labels, those of `protocol` first."""
    return {
        (
            sample.labels["protocol"],
            *(value for label, value in sample.labels.items() if label != "protocol"),
        ): (sample.value)
        for family in metrics
        for sample in family.samples
        if sample.name == name
    }


def test_protocols_share_a_family_and_only_those_with_sessions_tell_of_some() -> None:
    first, other = SessionMetrics(connections=2, sessions_started=5), ProtocolMetrics(connections=3)
    first.sessions_failed["one.timeout"] += 1
    other.rejects["other.noise"] += 4
    measured = {"one": first, "other": other}
    assert samples(families(measured), "culm_connections") == {("one",): 2, ("other",): 3}
    assert samples(families(measured), "culm_sessions_started_total") == {("one",): 5}
    assert samples(families(measured), "culm_sessions_failed_total") == {("one", "one.timeout"): 1}
    assert samples(families(measured), "culm_rejected_total") == {("other", "other.noise"): 4}


def test_two_drivers_of_a_protocol_are_added() -> None:
    first, other = SessionMetrics(bytes_in=1, staged=2), SessionMetrics(bytes_in=10, sessions_done=1)
    first.rejects["a"], other.rejects["a"], other.rejects["b"] = 1, 2, 3
    first.accept_latency.observe(0.1)
    other.accept_latency.observe(3.0, 2)
    both = added(first, other)
    assert (both.bytes_in, both.staged, both.sessions_done) == (11, 2, 1)
    assert both.rejects == {"a": 3, "b": 3}
    assert (both.accept_latency.count, first.accept_latency.count) == (3, 1)


def test_durations_fall_into_the_bucket_that_holds_them() -> None:
    durations = Durations()
    durations.observe(LATENCY_BUCKETS_S[0])
    durations.observe(1_000.0, 2)
    metrics = ProtocolMetrics(accept_latency=durations)
    registry = CollectorRegistry()
    registry.register(cast(Any, Told(lambda: families({"one": metrics}))))
    text = generate_latest(registry).decode()
    assert 'culm_accept_latency_seconds_bucket{le="0.001",protocol="one"} 1.0' in text
    assert 'culm_accept_latency_seconds_bucket{le="60.0",protocol="one"} 1.0' in text
    assert 'culm_accept_latency_seconds_bucket{le="+Inf",protocol="one"} 3.0' in text
    assert 'culm_accept_latency_seconds_sum{protocol="one"} 2000.001' in text


class Told:
    """A collector of what a function gives."""

    def __init__(self, collect: Callable[[], Iterator[Metric]]) -> None:
        self.collect = collect

    def describe(self) -> Iterator[Metric]:
        return iter(())


class Silent:
    """A protocol of which only doors and numbers are asked."""

    topics: Sequence[str] = ()
    readers: Sequence[TopicReader] = ()

    def __init__(self, *doors: Door) -> None:
        self.doors = doors
        self.numbers = ProtocolMetrics()

    async def run(self, ready: Callable[[], Any]) -> None: ...

    def why_not_ready(self) -> Sequence[str]:
        return ()

    def measured(self) -> ProtocolMetrics:
        return self.numbers

    def metrics(self) -> Iterator[Metric]:
        return iter(())

    def status(self) -> ProtocolStatus:
        return ProtocolStatus()

    def judge_again(self, former: AccessList) -> None: ...

    def endings(self, reason: str) -> Sequence[Ending]:
        return ()

    async def finish(self, reason: str) -> None: ...


class AnsweringKafka:
    """Stands for Kafka's health and producer: it is there, and has nothing to do."""

    away = None
    ends = None
    in_flight = (0, 0)
    acknowledged_at_s = None
    produced: Mapping[str, int] = {"culm.entries": 3}
    stalled_s = 0.0

    class latency:
        @staticmethod
        def collect() -> Iterator[Metric]:
            return iter(())


def collector(doors: Doors, protocols: Mapping[str, Silent]) -> ConnectorCollector:
    """What tells of these protocols behind these doors."""
    kafka = AnsweringKafka()
    running = Running(
        cast(KafkaHealth, kafka), cast(BatchProducer, kafka), protocols, SharedServices(), doors
    )
    health = Health(lambda: None, lambda: running)
    return ConnectorCollector(health, LoopWatch(), lambda: running)


async def test_who_is_turned_away_at_a_door_is_counted_with_protocol_and_reason() -> None:
    """By access, by readiness, by ALPN, before a protocol is known, and by the protocol itself."""
    allowed = True

    def judge(principal: Principal) -> Refusal | None:
        return None if allowed and principal.key != identity(3).peer_id else Refusal("not on the allow-list")

    async def greet(connection: Connection) -> None:
        await (await connection.open_stream()).write(b"hello")
        await connection.wait_closed()

    async def echo(channel: ByteChannel) -> None:
        while data := await channel.read():
            await channel.write(data)

    quic, late = QuicDoor("quic/1", LOOPBACK, greet, judge), QuicDoor("late/1", LOOPBACK, greet, judge)
    tcp = TcpDoor("tcp-door", LOOPBACK, echo, judge)
    protocols = {"one": Silent(quic, tcp), "two": Silent(late)}
    settings = quick_settings()
    async with Doors([quic, late, tcp], identity(1), settings, TcpSettings()) as doors:
        await doors.open([quic, tcp])
        address, at_tcp = doors.address("quic/1"), doors.address("tcp-door")
        assert address is not None and at_tcp is not None
        connection = await connect(address, identity(2), None, settings, alpn="quic/1")
        for who, alpn in ((3, "quic/1"), (2, "late/1"), (2, "none/1")):
            with pytest.raises(ConnectError):
                await connect(address, identity(who), None, settings, alpn=alpn)
        protocols["two"].numbers.refused["barred"] += 1
        channel = await connect_tcp(at_tcp, TcpSettings())
        await channel.write(b"there")
        assert await channel.read() == b"there"

        allowed = False
        doors.judge_again()
        assert (await connection.wait_closed()).code == CloseCode.REVOKED
        with pytest.raises(TransportError):
            await (await connect_tcp(at_tcp, TcpSettings())).read()
        collected = collector(doors, protocols)
        refused = {
            ("one", "identity"): 2,
            ("two", "not_ready"): 1,
            ("", "alpn"): 1,
            ("two", "barred"): 1,
        }
        await until(lambda: samples(collected.collect(), "culm_connections_refused_total") == refused)
        assert samples(collected.collect(), "culm_connections_closed_total") == {("one", "revoked"): 2}

        registry = CollectorRegistry()
        registry.register(collected)
        page = generate_latest(registry).decode()
        declared = re.findall(r"^# TYPE (\S+)", page, re.MULTILINE)
        assert len(declared) == len(set(declared)), "a family is told once, whoever shares it"
        values = {
            sample.labels["protocol"]
            for family in text_string_to_metric_families(page)
            for sample in family.samples
            if "protocol" in sample.labels
        }
        assert values <= {*protocols, ""}


def test_the_families_of_a_connector_are_open_metrics() -> None:
    """Prometheus asks for them in that form."""
    registry = CollectorRegistry()
    doors = Doors([], identity(1), quick_settings(), TcpSettings())
    registry.register(collector(doors, {"one": Silent(), "two": Silent()}))
    parse: Callable[[str], Iterator[Metric]] = openmetrics_parser.text_string_to_metric_families
    generate: Callable[[CollectorRegistry], bytes] = openmetrics.generate_latest
    page = generate(registry).decode()
    kinds = {family.name: family.type for family in parse(page)}
    assert kinds["culm_received_bytes"] == kinds["culm_forks"] == "counter"
    assert kinds["culm_accept_latency_seconds"] == "histogram"
    assert kinds["culm_build_info"] == kinds["culm_connector_ready"] == "gauge"


class FixedReader:
    """Reader of a topic with a fixed lag."""

    topic = "culm.logs"
    taken_at_s = None

    def __init__(self, lag: int) -> None:
        self._lag = lag

    def lag(self, ends: object) -> int:
        return self._lag


def test_the_lag_of_a_topic_with_two_readers_is_one_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both flavours of Bamboo read the same topics, and Prometheus refuses two values of one series."""
    monkeypatch.setattr(AnsweringKafka, "ends", Ends({}, 1.0))
    protocol = Silent()
    protocol.readers = [cast(TopicReader, FixedReader(lag)) for lag in (3, 4)]
    collected = collector(Doors([], identity(1), quick_settings(), TcpSettings()), {"bamboo_p2p": protocol})
    (family,) = (metric for metric in collected.collect() if metric.name == "culm_topic_lag_records")
    assert [(sample.labels, sample.value) for sample in family.samples] == [
        ({"protocol": "bamboo_p2p", "topic": "culm.logs"}, 7)
    ]
