"""librdkafka properties under the Java client's names, for Spark's Kafka source and sink.

Same name on both sides: `security.protocol`, `sasl.mechanism`, `client.id`,
`ssl.endpoint.identification.algorithm` and a few sizes and times. Translated: user name and password become a
JAAS line; PEM files and texts become PEM trust and key stores. Properties that only tune librdkafka (threads,
queues, logging) have no meaning in Java and are listed in `IGNORED`. Any other property is an error that
names it.
"""

from collections.abc import Mapping
from pathlib import Path

from culm_topics.errors import KafkaSettingsError

JAVA_PREFIX = "java."

SAME = frozenset(
    {
        "client.id",
        "client.rack",
        "client.dns.lookup",
        "security.protocol",
        "sasl.mechanism",
        "ssl.endpoint.identification.algorithm",
        "ssl.key.password",
        "metadata.max.age.ms",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "retry.backoff.ms",
        "retry.backoff.max.ms",
        "request.timeout.ms",
        "linger.ms",
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "session.timeout.ms",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "fetch.min.bytes",
        "fetch.max.bytes",
        "isolation.level",
        "check.crcs",
        "connections.max.idle.ms",
        "max.partition.fetch.bytes",
        "sasl.kerberos.service.name",
        "sasl.oauthbearer.token.endpoint.url",
    }
)
"""Properties with the same name and meaning in both clients."""

RENAMED: Mapping[str, str] = {
    "sasl.mechanisms": "sasl.mechanism",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "message.max.bytes": "max.request.size",
    "queue.buffering.max.ms": "linger.ms",
    "compression.codec": "compression.type",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
}
"""Properties whose name differs."""

IGNORED = frozenset(
    {
        "socket.nagle.disable",
        "socket.keepalive.enable",
        "socket.timeout.ms",
        "socket.max.fails",
        "broker.address.family",
        "broker.address.ttl",
        "topic.metadata.refresh.interval.ms",
        "topic.metadata.refresh.sparse",
        "queue.buffering.max.messages",
        "queue.buffering.max.kbytes",
        "queued.min.messages",
        "queued.max.messages.kbytes",
        "batch.num.messages",
        "partition.assignment.strategy",
        "statistics.interval.ms",
        "log_level",
        "debug",
        "log.connection.close",
        "log.thread.name",
        "api.version.request",
        "allow.auto.create.topics",
    }
)
"""Properties that tune librdkafka only; left out for Spark."""

_TRANSLATED = frozenset(
    {
        "sasl.username",
        "sasl.password",
        "sasl.oauthbearer.method",
        "sasl.oauthbearer.client.id",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.scope",
        "ssl.ca.location",
        "ssl.ca.pem",
        "ssl.certificate.location",
        "ssl.certificate.pem",
        "ssl.key.location",
        "ssl.key.pem",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "enable.ssl.certificate.verification",
    }
)


def to_java(options: Mapping[str, str]) -> dict[str, str]:
    """Return `options` under the Java client's names.

    Raises `KafkaSettingsError` with the properties that have no equivalent.
    """
    java: dict[str, str] = {}
    unknown: list[str] = []
    for name, text in options.items():
        if name.startswith(JAVA_PREFIX) or JAVA_PREFIX + name in options:
            continue  # passed verbatim, below
        if name in IGNORED or name in _TRANSLATED:
            continue
        if name in SAME:
            java[name] = text
        elif name in RENAMED:
            java[RENAMED[name]] = text
        else:
            unknown.append(name)
    if unknown:
        raise KafkaSettingsError(
            f"no Java name is known for {', '.join(sorted(unknown))}: say what Spark's Java client gets "
            f"as {JAVA_PREFIX}<same name>, which passes verbatim"
        )
    if "security.protocol" in java:
        java["security.protocol"] = java["security.protocol"].upper()
    for translate in (_sasl, _trust, _identity, _verification):
        java.update(translate(options))
    java.update(
        {
            name.removeprefix(JAVA_PREFIX): text
            for name, text in options.items()
            if name.startswith(JAVA_PREFIX)
        }
    )
    return java


def with_pem_texts(options: Mapping[str, str]) -> dict[str, str]:
    """Return `options` with the contents of PEM files instead of their paths, for clients on other machines.

    Raises `KafkaSettingsError` for a file that cannot be read.
    """
    texts = dict(options)
    for part in ("ssl.ca", "ssl.certificate", "ssl.key"):
        pem = _pem(options, f"{part}.pem", f"{part}.location")
        if pem is not None:
            texts.pop(f"{part}.location", None)
            texts[f"{part}.pem"] = pem
    return texts


def _sasl(options: Mapping[str, str]) -> dict[str, str]:
    mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms", "")).upper()
    if mechanism == "OAUTHBEARER":
        return _oauthbearer(options)
    if "sasl.username" not in options and "sasl.password" not in options:
        return {}
    modules = {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
    if mechanism not in modules:
        raise KafkaSettingsError(
            f"sasl.username and sasl.password go with sasl.mechanism {', '.join(modules)}, not {mechanism!r}"
        )
    return {
        "sasl.jaas.config": _jaas(
            modules[mechanism],
            {"username": options.get("sasl.username", ""), "password": options.get("sasl.password", "")},
        )
    }


def _oauthbearer(options: Mapping[str, str]) -> dict[str, str]:
    if options.get("sasl.oauthbearer.method", "").lower() != "oidc":
        raise KafkaSettingsError("OAUTHBEARER needs sasl.oauthbearer.method=oidc to be usable from Spark")
    fields = {
        "clientId": options.get("sasl.oauthbearer.client.id", ""),
        "clientSecret": options.get("sasl.oauthbearer.client.secret", ""),
    }
    if "sasl.oauthbearer.scope" in options:
        fields["scope"] = options["sasl.oauthbearer.scope"]
    return {
        "sasl.jaas.config": _jaas(
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule", fields
        ),
        "sasl.login.callback.handler.class": (
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler"
        ),
    }


def _jaas(module: str, fields: Mapping[str, str]) -> str:
    def quoted(text: str) -> str:
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    return f"{module} required " + " ".join(f"{name}={quoted(text)}" for name, text in fields.items()) + ";"


def _trust(options: Mapping[str, str]) -> dict[str, str]:
    pem = _pem(options, "ssl.ca.pem", "ssl.ca.location")
    return {} if pem is None else {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": pem}


def _identity(options: Mapping[str, str]) -> dict[str, str]:
    if "ssl.keystore.location" in options:
        store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": options["ssl.keystore.location"]}
        if "ssl.keystore.password" in options:
            store["ssl.keystore.password"] = options["ssl.keystore.password"]
        return store
    chain = _pem(options, "ssl.certificate.pem", "ssl.certificate.location")
    key = _pem(options, "ssl.key.pem", "ssl.key.location")
    if chain is None and key is None:
        return {}
    if chain is None or key is None:
        raise KafkaSettingsError(
            "ssl.certificate and ssl.key (.location or .pem) go together: one is not set"
        )
    return {"ssl.keystore.type": "PEM", "ssl.keystore.certificate.chain": chain, "ssl.keystore.key": key}


def _verification(options: Mapping[str, str]) -> dict[str, str]:
    if options.get("enable.ssl.certificate.verification", "true").lower() == "true":
        # librdkafka writes `none`; Java writes an empty name.
        if options.get("ssl.endpoint.identification.algorithm", "").lower() == "none":
            return {"ssl.endpoint.identification.algorithm": ""}
        return {}
    raise KafkaSettingsError(
        "enable.ssl.certificate.verification=false has no Java counterpart: give ssl.ca.location"
    )


def _pem(options: Mapping[str, str], text_name: str, file_name: str) -> str | None:
    if text_name in options:
        return options[text_name]
    if file_name not in options:
        return None
    path = Path(options[file_name])
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise KafkaSettingsError(
            f"{file_name}: {path} cannot be read as PEM for Spark: {_reason(error)}"
        ) from error


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "no reason given" if isinstance(error, OSError) else "it is not ASCII text"
