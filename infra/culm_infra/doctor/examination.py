"""All checks in their order: a check comes after those that it depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from culm_infra.doctor import cluster, configuration, machine
from culm_infra.doctor.finding import Check, Finding
from culm_infra.settings import CulmSettings, stack_directory
from culm_infra.stack import Stack
from culm_topics.kafka.acls import GRANTEES, Grantee, default_principal
from culm_topics.kafka.clients import KafkaSettings


def checks(
    settings: CulmSettings | None,
    config: Path | None,
    *,
    timeout_s: float,
    principals: Mapping[Grantee, str] | None = None,
) -> Iterator[Check]:
    """Yield every check, to be run before the next one is taken.

    Without settings, because they are wrong, those that need settings are left out.
    """
    yield Check("python", "its version", lambda: [machine.check_python()])
    yield Check("distributions", "their versions", machine.check_distributions)
    yield Check(
        "pyspark_python", "the Python of PYSPARK_PYTHON", lambda: [machine.check_pyspark_python(timeout_s)]
    )
    yield Check("java", "`java -version`", lambda: [machine.check_java()])
    yield Check("jars", "the checksums of the jars", machine.check_jar_sets)
    yield Check("settings", "the files that they name", lambda: configuration.check_settings(config))
    yield Check("doors", f"a dialled door, at most {timeout_s:g} s each", lambda: check_doors(timeout_s))
    if settings is None:
        reason = "the settings are wrong: see above"
        yield Check("kafka", "nothing", lambda: [Finding("kafka", "skipped", reason, "correct them first")])
        return
    stack = Stack(stack_directory(settings))
    yield Check("ports", "the local stack", lambda: [machine.check_ports(stack)])
    yield Check("disk", "the file system", lambda: [machine.check_disk(stack.directory)])
    yield from _checks_of_kafka(settings, timeout_s, principals or default_principals())


def default_principals() -> dict[Grantee, str]:
    """Return the usual principal of each program."""
    return {program: default_principal(program) for program in GRANTEES}


def check_doors(timeout_s: float) -> Iterable[Finding]:
    """Open and dial a QUIC and a TCP door on this machine; skipped without the extra `edge`."""
    try:
        from culm_infra.doctor import doors
    except ModuleNotFoundError as error:
        detail = f"{error.name} is not installed; only connectors and peers need it"
        return [Finding("doors", "skipped", detail, "pip install 'culm[edge]'")]
    return [doors.check_quic_door(timeout_s), doors.check_tcp_door(timeout_s)]


def _checks_of_kafka(
    settings: CulmSettings, timeout_s: float, principals: Mapping[Grantee, str]
) -> Iterator[Check]:
    kafka = cluster.configured(settings)
    if isinstance(kafka, Finding):
        absent = kafka
        yield Check("kafka", "nothing", lambda: [absent])
        return
    answered: list[bool] = []

    def reached(kafka: KafkaSettings) -> Iterator[Finding]:
        for finding in cluster.check_kafka(kafka, timeout_s):
            answered.append(finding.state == "ok")
            yield finding

    place = f"Kafka at {kafka.bootstrap}, at most {timeout_s:g} s for each step (--timeout)"
    yield Check("kafka", place, lambda: reached(kafka))
    if answered[:1] != [True]:
        return
    yield Check("topics", place, lambda: cluster.check_topics(kafka, timeout_s))
    yield Check("rights", place, lambda: _rights(kafka, timeout_s, principals))


def _rights(kafka: KafkaSettings, timeout_s: float, principals: Mapping[Grantee, str]) -> Iterator[Finding]:
    from culm_infra.doctor.rights import check_rights

    yield from check_rights(kafka, principals, timeout_s)
