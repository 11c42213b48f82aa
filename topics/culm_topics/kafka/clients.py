"""Kafka clients with Culm's defaults: settings, and factories for producer, consumer and admin client.

librdkafka's log lines go to `logging`, as `culm_topics.librdkafka` and at a bounded rate (`client_errors`).

Every librdkafka property can be set in `KafkaSettings.options` and overrides the defaults here, except the
few on which correctness depends (`FIXED`). Secrets never appear in `repr`, errors or `redacted()`.
`spark_options` returns the same properties under the Java client's names, for Spark.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient
from pydantic import BaseModel, ConfigDict, Field, field_validator

from culm_topics.catalogue.topics import spec, topic_name
from culm_topics.errors import KafkaSettingsError
from culm_topics.kafka.client_errors import CLIENT_LOG, ReportedErrors, watch
from culm_topics.kafka.java_client import JAVA_PREFIX, to_java
from culm_topics.topic_spec import DEFAULT_PREFIX, MAX_COPIES, MAX_MESSAGE_BYTES, TopicSpec

_Client = TypeVar("_Client", Producer, Consumer, AdminClient)

REDACTED = "********"
_SECRET = re.compile(r"password|secret|key\.pem|key\.passphrase|jaas|token|oauthbearer\.config|keystore\.key")
# Addresses of token servers; the tokens themselves are never in the settings.
_NO_SECRETS = frozenset({"sasl.oauthbearer.token.endpoint.url"})

FIXED: Mapping[str, str] = {
    "bootstrap.servers": "is the setting `bootstrap`",
    "group.id": "is an argument of the consumer",
    "acks": "is `all`: an acknowledged record must survive a broker",
    "enable.idempotence": "is on: a retry must neither repeat nor reorder",
    "partitioner": "is that of the Java client, so that every client puts a log into the same partition",
    "enable.auto.commit": "is off: positions are committed after the work is done",
    "enable.auto.offset.store": "is off: positions are committed after the work is done",
    "auto.offset.reset": "is an argument of the consumer: a position out of range must be an error",
    "transactional.id": "is not used: nothing relies on Kafka transactions",
}
"""Properties that cannot be set through `options`, with the reason."""

_COMMON = {
    "client.id": "culm",
    "socket.nagle.disable": "true",
    "socket.keepalive.enable": "true",
    # Warnings and worse; librdkafka's own default also logs every reconnection.
    "log_level": "4",
}
# An admin client is not polled between requests, and each request fails with its own error.
_ADMIN = {"log_level": "2"}
_PRODUCER = {
    "acks": "all",
    "enable.idempotence": "true",
    # Spark and every Java client hash keys with murmur2; librdkafka's own default is CRC32.
    "partitioner": "murmur2_random",
    "message.max.bytes": str(MAX_MESSAGE_BYTES),
    "compression.type": "lz4",
}
_LOW_LATENCY = {"linger.ms": "2"}
_BULK = {
    "linger.ms": "50",
    "batch.size": "1000000",
    "compression.type": "zstd",
    "queue.buffering.max.messages": "500000",
}
_CONSUMER = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "partition.assignment.strategy": "cooperative-sticky",
    "allow.auto.create.topics": "false",
    "fetch.wait.max.ms": "50",
    "fetch.message.max.bytes": str(MAX_MESSAGE_BYTES),
    # Limits the memory of a reader that is slower than the broker.
    "queued.max.messages.kbytes": str(32 * 1024),
    "queued.min.messages": "10000",
}

# The Java client's defaults stop at 1 MiB. A source ignores producer properties, a sink those of consumers.
_SPARK = {
    "kafka.acks": "all",
    "kafka.enable.idempotence": "true",
    "kafka.max.request.size": str(MAX_MESSAGE_BYTES),
    "kafka.max.partition.fetch.bytes": str(MAX_MESSAGE_BYTES),
}


class KafkaSettings(BaseModel):
    """The address of Kafka, and the layout of the deployment's topics there.

    `options` are librdkafka properties; a name with the prefix `java.` is for Spark alone and is passed to
    its Kafka source and sink verbatim. Without a `replication_factor` new topics get the brokers'
    `default.replication.factor`. `partitions` overrides the catalogue's number for the partitioned topics;
    `topic_config` adds or overrides topic properties by the topic's catalogue name, for example `{"logs":
    {"remote.storage.enable": "true"}}` for tiered storage.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    bootstrap: str = Field(min_length=1)
    prefix: str = Field(default=DEFAULT_PREFIX, pattern=r"^[A-Za-z0-9._-]{0,64}$")
    options: dict[str, str] = Field(default_factory=dict)
    replication_factor: int | None = Field(default=None, ge=1, le=MAX_COPIES)
    min_insync_replicas: int | None = Field(default=None, ge=1, le=MAX_COPIES)
    partitions: int | None = Field(default=None, ge=1, le=10_000)
    topic_config: dict[str, dict[str, str]] = Field(default_factory=dict)

    @field_validator("options", mode="before")
    @classmethod
    def _plain_values(cls, options: object) -> object:
        """Convert values such as `true` and `10` in configuration files to text."""
        if not isinstance(options, Mapping):
            return options
        return {name: _as_text(value) for name, value in options.items()}

    @field_validator("options")
    @classmethod
    def _changeable(cls, options: dict[str, str]) -> dict[str, str]:
        for name in options:
            if name in FIXED:
                raise ValueError(f"{name} cannot be set: it {FIXED[name]}")
        return options

    @field_validator("topic_config")
    @classmethod
    def _in_the_catalogue(cls, config: dict[str, dict[str, str]]) -> dict[str, dict[str, str]]:
        for name in config:
            try:
                spec(name)
            except KeyError:
                raise ValueError(f"topic_config names {name!r}, which is not in the catalogue") from None
        return config

    def topic(self, name: str) -> str:
        """Return the full name of the catalogue's topic `name` in this deployment."""
        return topic_name(self.prefix, name)

    def partitions_of(self, topic: TopicSpec) -> int:
        """Return the number of partitions of the topic in this deployment."""
        return self.partitions if topic.partitioned and self.partitions is not None else topic.partitions

    def config_of(self, topic: TopicSpec) -> dict[str, str]:
        """Return the topic's properties in this deployment."""
        config = dict(topic.config)
        if self.min_insync_replicas is not None:
            config["min.insync.replicas"] = str(self.min_insync_replicas)
        return config | self.topic_config.get(topic.name, {})

    def redacted(self) -> dict[str, Any]:
        """Return the settings for display: secrets are replaced."""
        shown = self.model_dump()
        shown["options"] = {
            name: REDACTED if is_secret(name) else text for name, text in self.options.items()
        }
        return shown

    def __repr_args__(self) -> list[tuple[str | None, Any]]:
        return list(self.redacted().items())


def is_secret(name: str) -> bool:
    """Whether a property's value must never be shown."""
    plain = name.lower().removeprefix(JAVA_PREFIX)
    return plain not in _NO_SECRETS and _SECRET.search(plain) is not None


def producer(
    settings: KafkaSettings,
    *,
    bulk: bool = False,
    on_error: Callable[[Any], None] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Producer:
    """Return an idempotent producer with acks=all; `bulk` trades latency (50 ms) for throughput.

    `defaults` are properties from the caller, which `settings.options` may override. Every factory here
    raises `KafkaSettingsError` for a property that librdkafka does not know or whose value it does not
    accept.
    """
    return _made(
        Producer,
        _client(settings, on_error)
        | _PRODUCER
        | (_BULK if bulk else _LOW_LATENCY)
        | dict(defaults or {})
        | _native_options(settings),
    )


def consumer(
    settings: KafkaSettings,
    *,
    group_id: str,
    start: Literal["earliest", "latest", "error"] = "error",
    on_error: Callable[[Any], None] | None = None,
    defaults: Mapping[str, str] | None = None,
) -> Consumer:
    """Return a consumer without automatic commits.

    `start` says what happens without a valid position. With the default, `error`, an offset out of range (and
    a group without a committed offset) becomes an error message from `poll` instead of a silent jump.
    `defaults` are properties from the caller, which `settings.options` may override.
    """
    return _made(
        Consumer,
        _client(settings, on_error)
        | _CONSUMER
        | {"group.id": group_id, "auto.offset.reset": start}
        | dict(defaults or {})
        | _native_options(settings),
    )


def admin(settings: KafkaSettings) -> AdminClient:
    """Return an admin client; `client_errors.cause_of` returns the cause of its failures."""
    errors = ReportedErrors()
    client = _made(AdminClient, _client(settings, errors.note) | _ADMIN | _native_options(settings))
    watch(client, errors)
    return client


def spark_options(settings: KafkaSettings) -> dict[str, str]:
    """Return the settings as options of Spark's Kafka source and sink: Java names after `kafka.`.

    Raises `KafkaSettingsError` with every property that has no name in the Java client. Such a property can
    be given for Spark in its Java form as `java.<name>`, which is passed verbatim.
    """
    return {
        "kafka.bootstrap.servers": settings.bootstrap,
        **_SPARK,
        **{f"kafka.{name}": text for name, text in to_java(settings.options).items()},
    }


def _made(kind: type[_Client], properties: dict[str, Any]) -> _Client:
    try:
        if kind is AdminClient:
            return kind(properties)
        return kind(properties, logger=CLIENT_LOG)
    except KafkaException as error:
        # The client's text names the property; it has the value only for a property with a list of values.
        raise KafkaSettingsError(f"Kafka's client refuses its properties: {error.args[0].str()}") from error


def _client(settings: KafkaSettings, on_error: Callable[[Any], None] | None) -> dict[str, Any]:
    properties: dict[str, Any] = {"bootstrap.servers": settings.bootstrap, **_COMMON}
    if on_error is not None:
        properties["error_cb"] = on_error
    return properties


def _native_options(settings: KafkaSettings) -> dict[str, Any]:
    options = {name: text for name, text in settings.options.items() if not name.startswith(JAVA_PREFIX)}
    uses_sasl = options.get("security.protocol", "").lower().startswith("sasl")
    if uses_sasl and "sasl.mechanism" not in options and "sasl.mechanisms" not in options:
        raise KafkaSettingsError(
            "security.protocol asks for SASL but sasl.mechanism is not set, and GSSAPI, its default, is not "
            "built in: set sasl.mechanism to PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"
        )
    return dict(options)


def _as_text(value: object) -> object:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int | float) else value
