"""Access to the logs of an edge: the principals that may connect, their rights and their quotas.

The table `logs` of the allow-list names logs: an author (64 hex digits), `AUTHOR/ID`, `*/ID`. The prefix
`read:` allows only reading them, `write:` only writing them. A forbidden log is answered like an unknown one
(128). If there is a policy file, too, both have to allow an operation. Quotas and retention that the file
does not set are the settings'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from pydantic import BaseModel, PrivateAttr

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.policy.document import (
    FolderPolicy,
    LogPattern,
    PeerRule,
    parse_log_pattern,
    read_policy,
)
from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal

TABLE: Final = "logs"
_READ, _WRITE = "read:", "write:"


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The current rules of the allow-list for logs."""

    access: AccessWatch

    def judge(self, principal: Principal) -> Refusal | None:
        """Return the reason to refuse a principal's connection, or None if it may connect."""
        return self.access.rules(TABLE).judge(principal)

    def may_connect(self, principal: str) -> bool:
        """Whether a principal may stay connected."""
        return self.access.rules(TABLE).of(principal) != frozenset()

    def within(self, principal: str, rule: PeerRule) -> PeerRule:
        """Return a principal's rule, restricted to the logs that the allow-list allows it."""
        allowed = self.access.rules(TABLE).of(principal)
        if allowed is None:
            return rule
        read = _patterns(name.removeprefix(_READ) for name in allowed if not name.startswith(_WRITE))
        write = _patterns(name.removeprefix(_WRITE) for name in allowed if not name.startswith(_READ))
        changed = {"read": _both(read, rule.read), "write": _both(write, rule.write)}
        return rule.model_copy(update=changed)


class EdgePolicy(FolderPolicy):
    """The rules of an edge: those of a policy file, restricted by the allow-list."""

    _access: LogAccess = PrivateAttr()

    @classmethod
    def of(cls, policy: FolderPolicy, access: LogAccess) -> EdgePolicy:
        """Return these rules, restricted by the allow-list."""
        made = cls.model_construct(**{name: getattr(policy, name) for name in FolderPolicy.model_fields})
        made._access = access
        return made

    def rule_for(self, principal: str) -> PeerRule:
        """Return the current rule of a peer, by the policy and the allow-list."""
        return self._access.within(principal, super().rule_for(principal))


def _patterns(names: Iterable[str]) -> list[LogPattern]:
    patterns: list[LogPattern] = []
    for name in names:
        try:
            patterns.append(parse_log_pattern(name))
        except ValueError:
            continue  # a malformed name allows nothing
    return patterns


def _both(first: Iterable[LogPattern], second: Iterable[LogPattern]) -> tuple[LogPattern, ...]:
    """Return patterns of the logs that match both a pattern of `first` and one of `second`."""
    second = tuple(second)
    return tuple(
        LogPattern(
            left.public_key if right.public_key is None else right.public_key,
            left.log_id if right.log_id is None else right.log_id,
        )
        for left in first
        for right in second
        if (left.public_key is None or right.public_key in (None, left.public_key))
        and (left.log_id is None or right.log_id in (None, left.log_id))
    )


_Rule = TypeVar("_Rule", bound=BaseModel)


def edge_rules(settings: BambooEdgeSettings) -> FolderPolicy:
    """Return the rules of an edge. Without a policy file all may read and write all logs, within the quotas.

    Raises `PolicyError`.
    """
    policy = FolderPolicy() if settings.policy is None else read_policy(settings.policy)

    def with_quotas(rule: PeerRule) -> PeerRule:
        quotas = {
            "quota_bytes": settings.quota_bytes or None,
            "quota_entries": settings.quota_entries or None,
            "quota_period_s": settings.quota_period_s,
        }
        return _unless_said(rule, quotas)

    retention = {
        "max_age_s": settings.max_payload_age_s or None,
        "max_bytes": settings.max_payload_bytes or None,
    }
    return policy.model_copy(
        update={
            "default": with_quotas(policy.default),
            "peer": {name: with_quotas(rule) for name, rule in policy.peer.items()},
            "retention": _unless_said(policy.retention, retention),
            "quotas": _unless_said(policy.quotas, {"author_bytes": settings.max_bytes_per_author or None}),
        }
    )


def _unless_said(rule: _Rule, values: dict[str, Any]) -> _Rule:
    """Return the rule with these values for all fields that the file does not set."""
    unsaid = {name: value for name, value in values.items() if name not in rule.model_fields_set}
    return rule.model_copy(update=unsaid)
