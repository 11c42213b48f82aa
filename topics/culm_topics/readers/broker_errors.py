"""Separates errors of the broker that pass by themselves from others, and retries until they have passed."""

import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException

from culm_topics.errors import UNREACHABLE_HINT, KafkaFailure, OffsetOutOfRange
from culm_topics.readers.topic_watch import TopicWatch

_Answer = TypeVar("_Answer")
_RETRY_SECONDS = 0.1

PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._WAIT_COORD,
        # The broker that was asked has just left the cluster; the retry goes to another one.
        KafkaError._DESTROY,
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

GROUP_MOVES = frozenset(
    {
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError._ASSIGNMENT_LOST,
        KafkaError._IN_PROGRESS,
        KafkaError._CONFLICT,
        KafkaError._MAX_POLL_EXCEEDED,
    }
)
"""The group is being rebalanced, or continued without this member, which will rejoin it."""

OUT_OF_RANGE = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})
TOPIC_GONE = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)


def judge(error: KafkaError, topic: str, watch: TopicWatch) -> None:
    """Raise the exception for an error that was received instead of a record, unless it passes by itself.

    Raises `OffsetOutOfRange`, `TopicRecreated`, `TopicMissing`, `KafkaFailure`.
    """
    code = error.code()
    if code in OUT_OF_RANGE:
        watch.check_now()  # has a clearer error if the topic was created again
        raise OffsetOutOfRange(
            f"{topic}: the position to read from is not in the topic ({error.str()}): records that were not "
            "read yet are gone, or the topic is another one"
        )
    if code in TOPIC_GONE:
        watch.ask_now()
    elif error.fatal() or not (error.retriable() or code in PASSING or code in GROUP_MOVES):
        raise KafkaFailure(f"{topic}: {error.str()} ({error.name()})", passes=False)


def ask(what: str, timeout_seconds: float, call: Callable[[float], _Answer | None]) -> _Answer:
    """Call `call(seconds left)` repeatedly until it returns an answer.

    Raises `KafkaFailure` at the timeout.
    """
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
    raise KafkaFailure(f"{what}: {last}", passes=hint is not None, hint=hint)
