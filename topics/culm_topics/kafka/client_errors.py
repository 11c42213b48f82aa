"""The cause of a Kafka client's failure: host name, connection, TLS or SASL, in words and with a remedy.

A request that gets no answer does not tell why. The cause is in the errors that librdkafka reports
separately, repeatedly while it retries; the latest error of each kind is kept.
"""

import logging
import re
import time
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

from confluent_kafka import KafkaError

from culm_topics.errors import UNREACHABLE_HINT

_AFTER: Final = re.compile(r" \(after \d+ms in state [A-Z_]+(, \d+ identical error\(s\) suppressed)?\)")
_ADDRESS_KIND: Final = re.compile(r"\bipv[46]#")


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a client cannot reach Kafka, whether this may pass by itself, and the remedy."""

    text: str
    hint: str
    passes: bool


_KINDS: Final = {
    KafkaError._AUTHENTICATION: (
        "SASL: ",
        "check security.protocol, sasl.mechanism, the user and the password, and the brokers' listener",
        False,
    ),
    KafkaError._SSL: (
        "TLS: ",
        "check security.protocol, ssl.ca.location, and the certificates of both sides",
        False,
    ),
    KafkaError._RESOLVE: ("DNS: ", "check the host names in the bootstrap servers", True),
    KafkaError._TRANSPORT: ("", UNREACHABLE_HINT, True),
}
"""By the error's code, the most specific first: a prefix, the hint, whether the error may pass by itself."""


class ReportedErrors:
    """The latest error of each kind that a client has reported; `note` is its `error_cb`."""

    def __init__(self) -> None:
        self._latest: dict[int, str] = {}

    def note(self, error: KafkaError) -> None:
        """Keep an error that tells a cause."""
        code, text = error.code(), error.str()
        if code == KafkaError._TRANSPORT and "SSL handshake failed" in text:
            code = KafkaError._SSL
        if code in _KINDS:
            self._latest[code] = text

    def take(self) -> Cause | None:
        """Return the most specific error as a cause, or None, and forget all errors reported so far."""
        for code, (kind, hint, passes) in _KINDS.items():
            if (text := self._latest.get(code)) is not None:
                self._latest.clear()
                return Cause(kind + _ADDRESS_KIND.sub("", _AFTER.sub("", text)), hint, passes)
        return None


_REPORTED: WeakKeyDictionary[Any, ReportedErrors] = WeakKeyDictionary()


def watch(client: Any, errors: ReportedErrors) -> None:
    """Register the object that collects the errors of a client."""
    _REPORTED[client] = errors


def cause_of(client: Any) -> Cause | None:
    """Return the cause of this client's recent failures, if it reported any.

    Also polls its pending reports.
    """
    errors = _REPORTED.get(client)
    if errors is None:
        return None
    client.poll(0)
    return errors.take()


INTERVAL_SECONDS: Final = 10.0
CLIENT_LOG: Final = logging.getLogger("culm_topics.librdkafka")


class OneOfEachKind(logging.Filter):
    """Log filter that lets through the first record of each facility in every interval."""

    def __init__(self, interval_seconds: float = INTERVAL_SECONDS) -> None:
        super().__init__()
        self._interval_seconds = interval_seconds
        self._passed_s: dict[object, float] = {}
        self._left_out: dict[object, int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log this record. Its message then includes the number of suppressed records."""
        # confluent-kafka logs with the arguments (facility, client's name, text).
        kind = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
        now_s = time.monotonic()
        last_s = self._passed_s.get(kind)
        if last_s is not None and now_s - last_s < self._interval_seconds:
            self._left_out[kind] = self._left_out.get(kind, 0) + 1
            return False
        self._passed_s[kind] = now_s
        if left_out := self._left_out.pop(kind, 0):
            record.msg = f"{record.msg} ({left_out} more like this since the last one)"
        return True


CLIENT_LOG.addFilter(OneOfEachKind())
