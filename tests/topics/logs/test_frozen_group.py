"""The position that a group of an earlier program has committed to Kafka is taken up."""

from __future__ import annotations

import pytest
from confluent_kafka import TopicPartition

from culm_topics.catalogue.topics import spec
from culm_topics.errors import OriginChanged
from culm_topics.kafka import admin
from culm_topics.kafka import clients as kafka
from culm_topics.logs.consumer import LogConsumer
from tests.support.log_topic import new_log_topic, take, write_steps

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("ending", ["", "/gaps"])
def test_a_group_resumes_from_a_position_with_the_id_of_its_topic(kafka_bootstrap: str, ending: str) -> None:
    settings = new_log_topic(kafka_bootstrap)
    write_steps(settings, [("a", number) for number in range(1, 7)])
    topic_id = admin.list_topics(settings, [spec("logs")])[0].topic_id
    groups = {"kept": f"culm/1/{topic_id}{ending}", "foreign": f"culm/1/AAAAAAAAAAAAAAAAAAAAAA{ending}"}
    for group_id, metadata in groups.items():
        client = kafka.consumer(settings, group_id=settings.prefix + group_id, start="earliest")
        place = TopicPartition(settings.topic("logs"), 0, 4, metadata)
        client.commit(offsets=[place], asynchronous=False)
        client.close()
    with LogConsumer(settings, group_id=f"{settings.prefix}kept") as consumer:
        assert take(consumer, 2) == [("a", 5), ("a", 6)]
    with (
        pytest.raises(OriginChanged),
        LogConsumer(settings, group_id=f"{settings.prefix}foreign") as consumer,
    ):
        take(consumer, 1)
