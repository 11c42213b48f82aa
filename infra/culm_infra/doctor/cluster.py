"""The configured Kafka: a record through it and back, its clock, and its topics."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from culm_infra.doctor.finding import Finding, State, text_of
from culm_infra.errors import SettingsError
from culm_infra.round_trip import BrokerClock
from culm_infra.settings import CulmSettings, resolve_kafka
from culm_infra.stack import StackNotRunningError
from culm_topics.errors import TopicsError
from culm_topics.kafka.clients import KafkaSettings

CLOCK_WARNED_ABOVE_S = 1.0
CLOCK_FAILED_ABOVE_S = 60.0
_SHOWN_TOPICS = 12


def configured(settings: CulmSettings) -> KafkaSettings | Finding:
    """Return the Kafka that the settings name; the finding says why there is none."""
    try:
        return resolve_kafka(settings)
    except (SettingsError, StackNotRunningError) as error:
        return Finding("kafka", "skipped", str(error), error.hint)


def check_kafka(kafka: KafkaSettings, timeout_s: float) -> Iterator[Finding]:
    """Check that a record passes through Kafka, on a topic of its own, and compare the clocks."""
    from culm_infra.round_trip import round_trip
    from culm_topics.kafka import clients
    from culm_topics.kafka.cluster import await_brokers

    began_s = time.monotonic()
    try:
        await_brokers(clients.admin(kafka), timeout_s)
        clock = round_trip(kafka, timeout_s=timeout_s)
    except Exception as error:
        yield Finding("kafka", "failed", f"{kafka.bootstrap}: {text_of(error)}", _advice(error, kafka))
        return
    took_s = time.monotonic() - began_s
    yield Finding("kafka", "ok", f"{kafka.bootstrap}: produced and consumed in {took_s:.1f} s")
    yield judge_clock(clock)


def judge_clock(clock: BrokerClock | None) -> Finding:
    """Return the finding about a measured offset of this machine's clock; None: not measured."""
    if clock is None:
        return Finding(
            "clock", "skipped", "the broker does not report when it stored a record, so nothing is compared"
        )
    # What the round trip leaves open counts in favour of the clock.
    certain_s = max(0.0, abs(clock.offset_s) - clock.uncertainty_s)
    state: State = (
        "failed"
        if certain_s > CLOCK_FAILED_ABOVE_S
        else "warning"
        if certain_s > CLOCK_WARNED_ABOVE_S
        else "ok"
    )
    direction = "ahead of" if clock.offset_s >= 0 else "behind"
    detail = (
        f"this machine is {abs(clock.offset_s):.3f} s {direction} the broker, "
        f"± {clock.uncertainty_s:.3f} s (the round trip)"
    )
    advice = (
        "synchronise both machines by NTP: `timedatectl status` or `chronyc tracking` shows whether one is"
    )
    return Finding("clock", state, detail, None if state == "ok" else advice)


def check_topics(kafka: KafkaSettings, timeout_s: float) -> Iterator[Finding]:
    """Compare the topics with the catalogue; one finding for each difference and each risk."""
    from culm_topics.kafka import admin

    try:
        differences = admin.check(kafka, timeout_seconds=timeout_s)
        risks = [entry.risk for entry in admin.durability(kafka, timeout_seconds=timeout_s) if entry.risk]
    except TopicsError as error:
        advice = error.hint or "`culm topics acls --program admin` prints the rights that this check needs"
        yield Finding("topics", "failed", str(error), advice)
        return
    missing = [difference.topic for difference in differences if difference.kind == "missing"]
    if missing:
        shown = ", ".join(missing[:_SHOWN_TOPICS])
        more = f" and {len(missing) - _SHOWN_TOPICS} more" if len(missing) > _SHOWN_TOPICS else ""
        yield Finding(
            "topics", "warning", f"do not exist: {shown}{more}", "`culm topics create` creates missing topics"
        )
    for difference in differences:
        if difference.kind != "missing":
            yield Finding(
                "topics",
                "warning",
                str(difference),
                "if it is intended, name the value in the settings; else change the topic with Kafka's tools",
            )
    for risk in risks:
        yield Finding("topics", "warning", risk, "see *Starting* in docs/operating.md")
    if not differences and not risks:
        place = f"with the prefix {kafka.prefix!r}" if kafka.prefix else "without a prefix"
        yield Finding("topics", "ok", f"as in the catalogue, {place}")


_Rule = tuple[str, Callable[[KafkaSettings], str]]
_ADVICE: tuple[_Rule, ...] = (
    (
        "GSSAPI",
        lambda _kafka: (
            "set sasl.mechanism (PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER) in [kafka]: "
            "without it SASL means GSSAPI, which the client library does not have"
        ),
    ),
    (
        "AUTHORIZATION",
        lambda kafka: (
            f"the user is missing a right: this check creates, writes, reads and deletes {kafka.prefix}"
            "doctor-*; `culm topics acls --program admin` prints what that takes"
        ),
    ),
    (
        "AUTHENTICATION",
        lambda _kafka: "check sasl.mechanism, sasl.username and sasl.password in [kafka]",
    ),
    ("SSL", lambda _kafka: "check security.protocol and ssl.ca.location (or ssl.ca.pem) in [kafka]"),
)


def _advice(error: Exception, kafka: KafkaSettings) -> str:
    message = str(error).upper()
    for mark, advice in _ADVICE:
        if mark in message:
            return advice(kafka)
    return f"is {kafka.bootstrap} right and reachable? `culm stack status` shows the local stack"
