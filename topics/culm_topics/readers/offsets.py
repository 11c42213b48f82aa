"""Where a partition begins and ends, asked of the broker that leads it."""

import contextlib
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import Consumer, KafkaException, TopicPartition

from culm_topics.readers.broker_errors import ask

REQUEST_TIMEOUT_SECONDS = 30.0
_ATTEMPT_SECONDS = 5.0

_Answer = TypeVar("_Answer")


def watermarks(client: Consumer, topic: str, partition: int) -> tuple[int, int]:
    """(first offset, offset after the last) of a partition. Raises `KafkaFailure`."""
    return ask_leader(
        client,
        topic,
        f"{topic} partition {partition}: asking for its offsets",
        lambda attempt_s: client.get_watermark_offsets(TopicPartition(topic, partition), timeout=attempt_s),
    )


def ask_leader(client: Consumer, topic: str, what: str, call: Callable[[float], _Answer | None]) -> _Answer:
    """`call(seconds)` again and again until a leader of `topic` answers, with leaders looked up in between.

    Raises `KafkaFailure` when none has answered in `REQUEST_TIMEOUT_SECONDS`.
    """

    def attempt(left_s: float) -> _Answer | None:
        try:
            return call(min(left_s, _ATTEMPT_SECONDS))
        except KafkaException:
            refresh_leaders(client, topic)
            raise

    return ask(what, REQUEST_TIMEOUT_SECONDS, attempt)


def refresh_leaders(client: Consumer, topic: str) -> None:
    """Have the client look up who leads the partitions of `topic` now.

    Of a partition that it does not read it remembers the leader for `metadata.max.age.ms`, a quarter of an
    hour, and goes on asking a broker that has died.
    """
    with contextlib.suppress(KafkaException):
        client.list_topics(topic, timeout=_ATTEMPT_SECONDS)
