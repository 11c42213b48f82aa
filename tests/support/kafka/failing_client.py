"""A Kafka client that fails once, at a call of the test's choice, and works again afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaError, KafkaException

from culm_topics.kafka import clients

REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)


class ErrorMessage:
    """What `consume` returns in place of a record if the broker refuses something for good."""

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def topic(self) -> str:
        return self._topic

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return OFFSET_INVALID

    def error(self) -> KafkaError:
        return REFUSED

    def __len__(self) -> int:
        return 0


class FailingClient:
    """A consumer of the broker. With `fails` the next call of `consume` that has records fails.

    "message": an error comes after the first of the records. "call": the next call raises.
    """

    def __init__(self, client: Consumer) -> None:
        self._client = client
        self._raises = False
        self.fails: str | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def consume(self, count: int = 1, timeout: float = -1) -> list[Any]:
        if self._raises:
            self._raises = False
            raise KafkaException(REFUSED)
        taken: list[Any] = self._client.consume(count, timeout)
        records = [message for message in taken if message.error() is None]
        if records and self.fails is not None:
            kind, self.fails = self.fails, None
            if kind == "call":
                self._raises = True
            else:
                taken.insert(taken.index(records[0]) + 1, ErrorMessage(records[0].topic()))
        return taken


@contextmanager
def failing_clients(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[FailingClient]]:
    """All consumers that are made meanwhile, in order."""
    made: list[FailingClient] = []
    real: Callable[..., Consumer] = clients.consumer

    def consumer(*arguments: Any, **named: Any) -> Any:
        made.append(FailingClient(real(*arguments, **named)))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(clients, "consumer", consumer)
        yield made


class FailsOnce:
    """A function in place of another: it raises an error at the call `at` (from 1 on), and only then."""

    def __init__(self, function: Callable[..., Any], error: BaseException, at: int = 1) -> None:
        self._function = function
        self._error = error
        self._at = at
        self.calls = 0

    def __get__(self, instance: object, owner: type) -> Callable[..., Any]:
        return lambda *arguments, **named: self(instance, *arguments, **named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        self.calls += 1
        if self.calls == self._at:
            raise self._error
        return self._function(*arguments, **named)

    @property
    def has_failed(self) -> bool:
        """Whether the error was raised."""
        return self.calls >= self._at
