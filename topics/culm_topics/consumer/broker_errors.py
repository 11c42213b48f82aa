"""Which of the broker's errors pass by themselves, and asking again until they have."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from culm_topics.errors import UNREACHABLE_HINT, KafkaFailure

_Answer = TypeVar("_Answer")
_RETRY_SECONDS = 0.1

PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.KAFKA_STORAGE_ERROR,
    }
)
"""A leader or a coordinator moves, starts or cannot be reached for a moment."""


def ask(what: str, timeout_seconds: float, call: Callable[[float], _Answer | None]) -> _Answer:
    """`call(seconds left)` again and again until it answers; `KafkaFailure` when it does not in time."""
    deadline_s = time.monotonic() + timeout_seconds
    last = "no answer in time"
    hint: str | None = UNREACHABLE_HINT
    while (left_s := deadline_s - time.monotonic()) > 0:
        try:
            answer = call(left_s)
        except KafkaException as error:
            last = error.args[0].str()
            if error.args[0].code() not in PASSING:
                hint = None
                break
            time.sleep(_RETRY_SECONDS)
            continue
        if answer is not None:
            return answer
    raise KafkaFailure(f"{what}: {last}", hint=hint)
