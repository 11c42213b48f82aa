"""Reading a channel's past out of Kafka: bounded pages, and clients that are used again."""

from __future__ import annotations

import contextlib
import random

import pytest

from culm_connectors.sds.history.replay import PastReaders, read_history
from culm_topics.errors import KafkaFailure
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.sds.keys import channel_key
from culm_topics.sds.records import SdsMessageRecord
from tests.support.kafka.topic_io import produce

pytestmark = pytest.mark.kafka

PARTITIONS = 1


async def test_pages_of_the_past_are_bounded_in_bytes_and_end_where_they_were_to_end(
    kafka: KafkaSettings,
) -> None:
    records = [
        SdsMessageRecord("spec", f"m{number}", "x", number, random.randbytes(100_000)).encode()
        for number in range(100)
    ]
    produce(kafka, "sds.messages", [(channel_key("room"), record) for record in records])
    readers = PastReaders(kafka)
    arguments = (readers, "room", 0)
    pages = [(page, offset) async for page, offset, _ in read_history(*arguments, None)]
    assert sum(len(page) for page, _ in pages) == 100
    assert max(sum(len(message.wire) for message in page) for page, _ in pages) < 4 * 1024**2
    assert pages[-1][1] == len(records)
    part = [message async for page, _, _ in read_history(*arguments, 10, 20) for message in page]
    assert [message.message_id for message in part][:10] == [f"m{number}" for number in range(10, 20)]
    assert len(part) < 90
    # With the same client: reading is broken off in the middle, then begins anew.
    async with readers.lend("sds.messages") as first:
        pass
    async with contextlib.aclosing(read_history(*arguments, 5)) as broken_off:
        async for page, _, _ in broken_off:
            assert page[0].message_id == "m5"
            break
    again = [message.message_id async for page, _, _ in read_history(*arguments, None) for message in page]
    assert again == [f"m{number}" for number in range(100)]
    async with readers.lend("sds.messages") as last_lent:
        assert last_lent is first
    await readers.close()


async def test_a_client_that_failed_is_not_lent_again(kafka: KafkaSettings) -> None:
    readers = PastReaders(kafka)
    with pytest.raises(KafkaFailure):
        async with readers.lend("sds.messages") as failed:
            raise KafkaFailure("the broker is away")
    async with readers.lend("sds.messages") as other:
        assert other is not failed
    await readers.close()
