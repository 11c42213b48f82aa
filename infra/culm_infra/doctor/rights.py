"""Rights of each program on the configured Kafka, compared with those that it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ConfigResource,
    ResourcePatternType,
    ResourceType,
)

from culm_infra.doctor.finding import Finding, text_of
from culm_topics.errors import TopicsError
from culm_topics.kafka import clients
from culm_topics.kafka.acls import GRANTEES, Acl, Grantee, acls
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.kafka.cluster import await_brokers

_SHOWN = 3
_RESOURCES = {"topic": ResourceType.TOPIC, "group": ResourceType.GROUP}
_OPERATIONS = {
    "Read": AclOperation.READ,
    "Write": AclOperation.WRITE,
    "Create": AclOperation.CREATE,
    "Delete": AclOperation.DELETE,
    "Describe": AclOperation.DESCRIBE,
    "DescribeConfigs": AclOperation.DESCRIBE_CONFIGS,
}
_IMPLIED_BY = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}
_EVERYBODY = "User:*"


def check_rights(
    kafka: KafkaSettings, principals: Mapping[Grantee, str], timeout_s: float
) -> Iterator[Finding]:
    """Compare the granted rights with those that each program needs; one finding for each program."""
    try:
        granted = _granted(kafka, timeout_s)
    except (KafkaException, TopicsError, TimeoutError) as error:
        detail = "no answer in time" if isinstance(error, TimeoutError) else text_of(error)
        yield Finding("rights", "skipped", detail, "see `culm topics acls`")
        return
    if granted is None:
        yield Finding(
            "rights",
            "skipped",
            "this user may not list access rights (Describe on the cluster)",
            "compare them with `culm topics acls`, or run this check as a user that may list them",
        )
        return
    if not granted and _has_no_authoriser(kafka, timeout_s):
        yield Finding("rights", "ok", "the broker has no authoriser: every client may do everything")
        return
    for program in GRANTEES:
        yield judge(program, principals[program], acls(kafka, (program,)), granted)


def judge(program: Grantee, principal: str, needed: Iterable[Acl], granted: Iterable[AclBinding]) -> Finding:
    """Return the finding about one program, whose principal needs these rights."""
    name = f"rights: {program}"
    own = [binding for binding in granted if binding.principal in (principal, _EVERYBODY)]
    if not any(binding.permission_type == AclPermissionType.ALLOW for binding in own):
        return Finding(
            name,
            "skipped",
            f"{principal} has no rights; nothing to check if the program does not run here",
            f"name its user by --principal {program}=User:NAME, or grant the rights: "
            f"`culm topics acls --as script --program {program}`",
        )
    needed = tuple(needed)
    missing = [right for right in needed if not _is_allowed(right, own)]
    if not missing:
        return Finding(name, "ok", f"{principal} has all {len(needed)} rights")
    shown = "; ".join(f"{right.operation} on {right.resource} {right.name}" for right in missing[:_SHOWN])
    more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
    return Finding(
        name,
        "failed",
        f"{principal} is missing {shown}{more}",
        f"`culm topics acls --as script --program {program} --principal {program}={principal}` "
        "prints a script that grants them",
    )


def _granted(kafka: KafkaSettings, timeout_s: float) -> list[AclBinding] | None:
    """Return all access rights; None if this user may not list them.

    The cluster first reports what this user may do: librdkafka does not report a denied listing. A broker
    with access control notes that question as denied if the user has no right on the cluster.
    """
    client = clients.admin(kafka)
    await_brokers(client, timeout_s)
    described: Any = client.describe_cluster(include_authorized_operations=True, request_timeout=timeout_s)
    allowed = described.result(timeout_s).authorized_operations
    if AclOperation.DESCRIBE not in (allowed or ()):
        return None
    everything = AclBindingFilter(
        ResourceType.ANY,
        None,  # type: ignore[arg-type]
        ResourcePatternType.ANY,
        None,  # type: ignore[arg-type]
        None,  # type: ignore[arg-type]
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    return list(client.describe_acls(everything, request_timeout=timeout_s).result(timeout_s))


def _has_no_authoriser(kafka: KafkaSettings, timeout_s: float) -> bool:
    """Return whether the broker says that it has none; librdkafka lists no rights in that case."""
    client = clients.admin(kafka)
    try:
        broker = next(iter(client.list_topics(timeout=timeout_s).brokers))
        resource = ConfigResource(ResourceType.BROKER, str(broker))
        (described,) = client.describe_configs([resource], request_timeout=timeout_s).values()
        entry = described.result(timeout_s).get("authorizer.class.name")
    except (KafkaException, TimeoutError, StopIteration):
        return False
    return entry is not None and not entry.value


def _is_allowed(right: Acl, bindings: Iterable[AclBinding]) -> bool:
    matching = [binding for binding in bindings if _covers(binding, right)]
    if any(binding.permission_type == AclPermissionType.DENY for binding in matching):
        return False
    return bool(matching)


def _covers(binding: AclBinding, right: Acl) -> bool:
    if binding.restype != _RESOURCES[right.resource]:
        return False
    operation = _OPERATIONS[right.operation]
    operations = {operation, AclOperation.ALL}
    if binding.permission_type == AclPermissionType.ALLOW:
        operations |= _IMPLIED_BY.get(operation, set())
    if binding.operation not in operations:
        return False
    if binding.resource_pattern_type == ResourcePatternType.PREFIXED:
        return right.name.startswith(binding.name)
    return binding.name == "*" or (right.pattern == "literal" and binding.name == right.name)
