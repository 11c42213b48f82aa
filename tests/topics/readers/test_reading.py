"""Reading a topic to the end that it has now, on the real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from culm_topics.catalogue.topics import spec
from culm_topics.chotki.consumer import ChotkiConsumer
from culm_topics.dag.consumer import DagConsumer, DagContent
from culm_topics.errors import TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.logs.consumer import LogConsumer
from culm_topics.logs.payload_reader import PayloadReader
from culm_topics.readers.partitions import read_to_end
from culm_topics.sds.events import SdsEventReader
from culm_topics.sds.index import SdsIndex

pytestmark = pytest.mark.kafka


def test_every_partition_is_read_to_its_end_and_no_further(kafka_bootstrap: str, topic_prefix: str) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=3)
    admin.create(settings)
    assert list(read_to_end(settings, "receipts")) == []
    producer = kafka.producer(settings)
    for number in range(50):
        producer.produce(settings.topic("receipts"), key=b"%032d" % number, value=b"%d" % number)
    assert producer.flush(30) == 0
    messages = list(read_to_end(settings, "receipts"))
    assert sorted(int(message.value) for message in messages) == list(range(50))
    assert len({message.partition for message in messages}) > 1


@pytest.mark.parametrize(
    ("there", "read"),
    [
        ((), lambda settings, _: list(read_to_end(settings, "receipts"))),
        ((), lambda settings, _: LogConsumer(settings)),
        (("logs",), lambda settings, _: LogConsumer(settings, sparse=True)),
        ((), lambda settings, _: PayloadReader(settings).poll(1.0)),
        ((), lambda settings, _: SdsEventReader(settings)),
        (("sds.messages",), lambda settings, folder: SdsIndex(settings, folder / "index")),
        (("sds.index",), lambda settings, folder: SdsIndex(settings, folder / "index")),
        ((), lambda settings, _: ChotkiConsumer(settings)),
        ((), lambda settings, _: DagConsumer(settings)),
        ((), lambda settings, _: DagContent(settings)),
    ],
)
def test_a_missing_topic_is_an_error_that_says_what_to_do(
    kafka_bootstrap: str,
    topic_prefix: str,
    tmp_path: Path,
    there: tuple[str, ...],
    read: Callable[[KafkaSettings, Path], object],
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    for name in there:
        admin.create(settings, [spec(name)])
    with pytest.raises(TopicMissing, match=r"do(es)? not exist") as missing:
        read(settings, tmp_path)
    assert "culm topics create" in f"{missing.value} {missing.value.hint}"
