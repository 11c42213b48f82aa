"""What the topics of a deployment say of what was refused."""

from __future__ import annotations

import asyncio
from collections import Counter

from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.whole_topic import read_to_end
from culm_topics.records.rejected import RejectedRecord


async def rejected_codes(kafka: KafkaSettings) -> Counter[str]:
    """The codes on `rejected`, and how often."""

    def read() -> Counter[str]:
        return Counter(
            RejectedRecord.decode(message.value).code for message in read_to_end(kafka, "rejected")
        )

    return await asyncio.to_thread(read)
