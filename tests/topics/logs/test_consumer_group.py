"""Members of one group: who joins, leaves or is killed costs no entry, and none comes twice but by a kill."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from culm_topics.catalogue.topics import spec
from culm_topics.errors import OriginChanged
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer
from tests.support.p2panda.log_topic import Step, new_log_topic, steps_of, take, write_steps
from tests.support.process.groups import child
from tests.support.process.waiting import looks

pytestmark = pytest.mark.kafka

PARTITIONS = 6
LOGS = 40
TIMEOUT_SECONDS = 60.0
# A member that is killed is missed sooner than by default, and a rebalance is noticed at once.
GROUP_OPTIONS = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "100"}


def wait_until(ready: Callable[[], bool], what: str, *members: Member) -> None:
    for _ in looks(what, step_s=0.02):
        if ready():
            break
        for member in members:
            member.assert_sound()


def group_topic(bootstrap: str) -> KafkaSettings:
    settings = new_log_topic(bootstrap, partitions=PARTITIONS)
    return settings.model_copy(update={"options": GROUP_OPTIONS})


def steps(first: int, last: int) -> list[Step]:
    """These sequence numbers of every log."""
    return [(f"w{number}", seq_num) for seq_num in range(first, last + 1) for number in range(LOGS)]


class Member(threading.Thread):
    """One member of a group in a thread of its own, as a program would have it in a process."""

    def __init__(self, settings: KafkaSettings, seen: list[Step], **arguments: object) -> None:
        super().__init__(daemon=True)
        self.consumer = LogConsumer(settings, group_id=f"{settings.prefix}g", **arguments)  # type: ignore[arg-type]
        self.own: list[Step] = []
        self.error: BaseException | None = None
        self._seen = seen
        self.start()

    def run(self) -> None:
        try:
            with self.consumer:
                for entry in self.consumer:
                    self.own += steps_of([entry])
                    self._seen += steps_of([entry])
        except BaseException as error:
            self.error = error

    def leave(self) -> None:
        """Leave the group in good order; fails with what the thread failed of."""
        self.consumer.stop()
        self.join(TIMEOUT_SECONDS)
        assert not self.is_alive()
        self.assert_sound()

    def assert_sound(self) -> None:
        """Fails with what the thread failed of, and when it passed something over."""
        if self.error is not None:
            raise self.error
        assert not self.consumer.logs_set_aside


def assert_once_and_in_order(seen: list[Step], expected: list[Step]) -> None:
    assert Counter(seen) == Counter(expected)
    for number in range(LOGS):
        own = [seq_num for name, seq_num in seen if name == f"w{number}"]
        assert own == sorted(own)


def test_three_members_at_once_share_the_entries(kafka_bootstrap: str) -> None:
    settings = group_topic(kafka_bootstrap)
    write_steps(settings, steps(1, 5))
    seen: list[Step] = []
    members = [Member(settings, seen) for _ in range(3)]
    wait_until(lambda: len(set(seen)) == 5 * LOGS, "all entries", *members)
    wait_until(lambda: all(len(member.consumer.positions()) == 2 for member in members), "two of six each")
    write_steps(settings, steps(6, 10))
    wait_until(lambda: len(set(seen)) == 10 * LOGS, "all entries", *members)
    assert all(member.own for member in members)
    for member in members:
        member.leave()
    assert_once_and_in_order(seen, steps(1, 10))


def test_who_joins_and_who_leaves_under_load_costs_no_entry_and_repeats_none(kafka_bootstrap: str) -> None:
    settings = group_topic(kafka_bootstrap)
    write_steps(settings, steps(1, 2))
    seen: list[Step] = []
    first = Member(settings, seen)
    wait_until(lambda: len(seen) > LOGS, "entries at the first member")
    last = 2
    enough = threading.Event()

    def write() -> None:
        nonlocal last
        while not enough.is_set():
            last += 1
            write_steps(settings, steps(last, last))

    writing = threading.Thread(target=write)
    writing.start()
    try:
        second = Member(settings, seen)
        wait_until(lambda: bool(second.own), "entries at the second member", first, second)
        first.leave()
    finally:
        enough.set()
        writing.join()
    wait_until(lambda: len(set(seen)) == last * LOGS, "all entries", second)
    second.leave()
    assert_once_and_in_order(seen, steps(1, last))


class RebalancedWhileFetching:
    """The real client; partition 0 is given up within each call that brings records."""

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._on_revoke: Callable[[Consumer, list[TopicPartition]], None] | None = None

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def subscribe(self, topics: list[str], *, on_revoke: object, **callbacks: object) -> None:
        self._on_revoke = on_revoke  # type: ignore[assignment]
        self._client.subscribe(topics, on_revoke=on_revoke, **callbacks)  # type: ignore[arg-type]

    def consume(self, count: int, timeout: float) -> list[Message]:
        records = self._client.consume(count, timeout=timeout)
        if records and self._on_revoke is not None:
            self._on_revoke(self._client, [TopicPartition("", 0)])
        return records


def test_records_that_come_with_a_rebalance_are_handed_out(
    kafka_bootstrap: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = group_topic(kafka_bootstrap)
    write_steps(settings, [("w0", 1), ("w0", 2)], partition=1)
    real = kafka.consumer
    monkeypatch.setattr(
        kafka, "consumer", lambda *arguments, **named: RebalancedWhileFetching(real(*arguments, **named))
    )
    with LogConsumer(settings, group_id=f"{settings.prefix}g") as consumer:
        assert take(consumer, 2) == [("w0", 1), ("w0", 2)]


def test_a_member_without_a_partition_waits_for_one(kafka_bootstrap: str) -> None:
    settings = new_log_topic(kafka_bootstrap).model_copy(update={"options": GROUP_OPTIONS})
    seen: list[Step] = []
    write_steps(settings, [("w0", 1)])
    first = Member(settings, seen)
    wait_until(lambda: len(seen) == 1, "the first entry")
    second = Member(settings, seen)
    wait_until(lambda: second.consumer.is_assigned, "the group's answer to the second member")
    assert second.is_alive()
    first.leave()
    write_steps(settings, [("w0", 2)])
    wait_until(lambda: second.own == [("w0", 2)], "the second entry")
    second.leave()


def test_a_member_closes_soon_whatever_the_group_is_doing(kafka_bootstrap: str) -> None:
    settings = group_topic(kafka_bootstrap)
    write_steps(settings, steps(1, 1))
    group = f"{settings.prefix}g"
    with LogConsumer(settings, group_id=group) as first:
        assert first.poll(TIMEOUT_SECONDS) is not None
        second = LogConsumer(settings, group_id=group)
        assert second.poll(0.5) is None
        second.close()
        third = LogConsumer(settings, group_id=group)
        third.close()


PROGRAM = """
import sys
from culm_topics.logs.consumer import LogConsumer
from culm_topics.kafka.clients import KafkaSettings
settings = KafkaSettings.model_validate_json(sys.argv[1])
with LogConsumer(settings, group_id=settings.prefix + "g") as consumer, open(sys.argv[2], "a") as file:
    for entry in consumer:
        print(entry.entry_bytes.decode(), file=file, flush=True)
"""


def test_a_killed_member_costs_no_entry_and_repeats_at_most_what_it_had_not_committed(
    kafka_bootstrap: str, tmp_path: Path
) -> None:
    settings = group_topic(kafka_bootstrap)
    write_steps(settings, steps(1, 5))
    output = tmp_path / "seen"
    output.touch()

    def killed_saw() -> list[Step]:
        rows = [line.split(":") for line in output.read_text().splitlines()]
        return [(name, int(seq_num)) for name, seq_num in rows]

    seen: list[Step] = []
    survivor = Member(settings, seen)
    wait_until(lambda: bool(seen), "entries at the survivor")
    command = [sys.executable, "-c", PROGRAM, settings.model_dump_json(), str(output)]
    with child(command, cwd=tmp_path):
        wait_until(lambda: len(survivor.consumer.positions()) == PARTITIONS // 2, "shared partitions")
        write_steps(settings, steps(6, 10))
        wait_until(lambda: len(killed_saw()) > LOGS, "entries at the member to be killed")
    write_steps(settings, steps(11, 12))
    wait_until(lambda: set(steps(11, 12)) <= set(seen), "the entries after the kill", survivor)
    survivor.leave()
    assert set(seen) | set(killed_saw()) == set(steps(1, 12))
    assert len(seen) == len(set(seen)), "the survivor sees nothing twice"
    for number in range(LOGS):
        own = [seq_num for name, seq_num in seen if name == f"w{number}"]
        assert own == sorted(own)


# The position that a group of an earlier program has committed to Kafka is taken up.


@pytest.mark.parametrize("ending", ["", "/gaps"])
def test_a_group_resumes_from_a_position_with_the_id_of_its_topic(kafka_bootstrap: str, ending: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", number) for number in range(1, 7)])
    topic_id = admin.list_topics(settings, [spec("logs")])[0].topic_id
    groups = {"kept": f"culm/1/{topic_id}{ending}", "foreign": f"culm/1/AAAAAAAAAAAAAAAAAAAAAA{ending}"}
    for group_id, metadata in groups.items():
        client = kafka.consumer(settings, group_id=settings.prefix + group_id, start="earliest")
        position = TopicPartition(settings.topic("logs"), 0, 4, metadata)
        client.commit(offsets=[position], asynchronous=False)
        client.close()
    with LogConsumer(settings, group_id=f"{settings.prefix}kept") as consumer:
        assert take(consumer, 2) == [("a", 5), ("a", 6)]
    with (
        pytest.raises(OriginChanged),
        LogConsumer(settings, group_id=f"{settings.prefix}foreign") as consumer,
    ):
        take(consumer, 1)
