"""Errors between a connector and Kafka; none is ignored silently."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.errors import ConnectorError


class KafkaBridgeError(ConnectorError):
    """The base of the errors of the Kafka bridges."""

    code: ClassVar[str] = "connector.kafka"


class ProduceFailed(KafkaBridgeError):
    """Kafka did not acknowledge records; the records that it did acknowledge stay."""

    code: ClassVar[str] = "connector.kafka.produce"


class OffsetLost(KafkaBridgeError):
    """The offset to read next no longer exists: retention removed it, or the topic was created again."""

    code: ClassVar[str] = "connector.kafka.offset_lost"


class RecreatedWhileRead(KafkaBridgeError):
    """A topic that we read was deleted and created again while we read it."""

    code: ClassVar[str] = "connector.kafka.topic_recreated"


class PartitionsAdded(KafkaBridgeError):
    """A topic has more partitions than this process reads; a process that starts now reads all of them."""

    code: ClassVar[str] = "connector.kafka.partitions"
    passes: ClassVar[bool] = True


class ConsumeFailed(KafkaBridgeError):
    """A topic could not be read. `passes`: a later attempt may succeed although nobody changes anything."""

    code: ClassVar[str] = "connector.kafka.consume"

    def __init__(self, message: str, *, passes: bool = False, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.passes = passes
