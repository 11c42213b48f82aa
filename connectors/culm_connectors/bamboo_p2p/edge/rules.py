"""The rules of an edge: those of its policy file, and what the settings say where that is silent."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel

from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule, read_policy

_Rule = TypeVar("_Rule", bound=BaseModel)


def edge_rules(settings: BambooEdgeSettings) -> FolderPolicy:
    """The rules; without a file everybody may read and write all, within the quotas of the settings.

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
    """The rule with these values, but for what the file says of itself."""
    unsaid = {name: value for name, value in values.items() if name not in rule.model_fields_set}
    return rule.model_copy(update=unsaid)
