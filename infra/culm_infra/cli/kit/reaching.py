"""Waits for Kafka or for a peer to answer, and says within a second what a command waits for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from culm_infra.cli.kit.output import safe, say
from culm_infra.patience import Patience

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

Result = TypeVar("Result")

_REDIAL_PAUSE_S: Final = 0.5
SILENT_S: Final = 0.8
"""A command that waits says for what after so long."""


def reach(kafka: KafkaSettings, timeout_s: float) -> None:
    """Return when the cluster answers. Raises `KafkaFailure` if it refuses, or does not answer in time.

    After about a second a line on standard error says what the command waits for.
    """
    from culm_topics.errors import KafkaFailure
    from culm_topics.kafka import clients
    from culm_topics.kafka.cluster import await_brokers

    client = clients.admin(kafka)
    try:
        await_brokers(client, min(SILENT_S, timeout_s))
    except KafkaFailure as error:
        if not error.passes or timeout_s <= SILENT_S:
            raise
        say(f"waiting for Kafka at {safe(kafka.bootstrap)}{limit_text(timeout_s)}")
        await_brokers(client, timeout_s - SILENT_S)


@contextmanager
def announced_wait(kafka: KafkaSettings) -> Iterator[None]:
    """Say within a second of the start of the block that Kafka does not answer, if that is so.

    The block itself does the waiting.
    """
    ended = threading.Event()

    def look() -> None:
        from culm_topics.errors import KafkaFailure
        from culm_topics.kafka import clients
        from culm_topics.kafka.cluster import await_brokers

        try:
            await_brokers(clients.admin(kafka), SILENT_S)
        except KafkaFailure as error:
            if error.passes and not ended.is_set():
                say(f"waiting for Kafka at {safe(kafka.bootstrap)}")

    threading.Thread(target=look, name="announced wait", daemon=True).start()
    try:
        yield
    finally:
        ended.set()


@contextmanager
def announced(message: str) -> Iterator[Callable[[], None]]:
    """Say what the block waits for if it has not ended within a second.

    Yields a function for the end of the wait if the block goes on after it.
    """
    timer = threading.Timer(SILENT_S, lambda: say(safe(message)))
    timer.daemon = True
    timer.start()
    try:
        yield timer.cancel
    finally:
        timer.cancel()


async def when_it_answers(dial: Callable[[], Awaitable[Result]], timeout_s: float | None) -> Result:
    """Return the result of dialling; retry while nothing answers at the address.

    Raises the last `ConnectError` if attempts have failed in the same way for `timeout_s` seconds. Raises it
    at once without a timeout, or if the other side refuses.
    """
    from culm_connectors.transport import CloseOrigin, ConnectError

    failure = ""
    patience = Patience(timeout_s or 0.0, lambda: failure)
    while True:
        try:
            return await dial()
        except ConnectError as error:
            refused = error.reason is not None and error.reason.origin == CloseOrigin.REMOTE
            failure = str(error)
            if refused or timeout_s is None or patience.is_over():
                raise
        await asyncio.sleep(_REDIAL_PAUSE_S)


def limit_text(timeout_s: float | None) -> str:
    """Return how long a command waits, as the end of a sentence; empty without a timeout."""
    return "" if timeout_s is None else f", at most {timeout_s:g} s (--timeout)"
