"""What the allow-list's table `logs` means here: who may connect, and which logs each may read or write.

A name in a list says which logs: an author (64 hex digits), `AUTHOR/ID`, `*/ID`; `read:` before it allows to
read them alone, `write:` to bring them alone. What is not allowed is answered as what nobody has (128).
Where there is a file of rules for logs, too, both have to allow it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pydantic import PrivateAttr

from culm_connectors.bamboo_p2p.policy.document import FolderPolicy, PeerRule
from culm_connectors.bamboo_p2p.policy.log_pattern import LogPattern, parse_log_pattern
from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal

TABLE: Final = "logs"
_READ, _WRITE = "read:", "write:"


@dataclass(frozen=True, slots=True)
class LogAccess:
    """The rules for logs as they are now."""

    access: AccessWatch

    def judge(self, principal: Principal) -> Refusal | None:
        """Whether somebody may come in at all."""
        return self.access.rules(TABLE).judge(principal)

    def may_connect(self, principal: str) -> bool:
        """Whether somebody may stay connected."""
        return self.access.rules(TABLE).of(principal) != frozenset()

    def within(self, principal: str, rule: PeerRule) -> PeerRule:
        """What of a rule the allow-list leaves to somebody."""
        allowed = self.access.rules(TABLE).of(principal)
        if allowed is None:
            return rule
        read = _patterns(name.removeprefix(_READ) for name in allowed if not name.startswith(_WRITE))
        write = _patterns(name.removeprefix(_WRITE) for name in allowed if not name.startswith(_READ))
        changed = {"read": _both(read, rule.read), "write": _both(write, rule.write)}
        return rule.model_copy(update=changed)


class EdgePolicy(FolderPolicy):
    """The rules of an edge: those of a file, as far as the allow-list allows the same."""

    _access: LogAccess = PrivateAttr()

    @classmethod
    def of(cls, policy: FolderPolicy, access: LogAccess) -> EdgePolicy:
        """These rules, within the allow-list."""
        made = cls.model_construct(**{name: getattr(policy, name) for name in FolderPolicy.model_fields})
        made._access = access
        return made

    def rule_for(self, principal: str) -> PeerRule:
        """The rule of a peer, as both say now."""
        return self._access.within(principal, super().rule_for(principal))


def _patterns(names: Iterable[str]) -> list[LogPattern]:
    found: list[LogPattern] = []
    for name in names:
        try:
            found.append(parse_log_pattern(name))
        except ValueError:
            continue  # what is no name of a log allows nothing
    return found


def _both(some: Iterable[LogPattern], others: Iterable[LogPattern]) -> tuple[LogPattern, ...]:
    """Patterns of the logs that one of `some` and one of `others` are about."""
    others = tuple(others)
    return tuple(
        LogPattern(
            one.public_key if other.public_key is None else other.public_key,
            one.log_id if other.log_id is None else other.log_id,
        )
        for one in some
        for other in others
        if (one.public_key is None or other.public_key in (None, one.public_key))
        and (one.log_id is None or other.log_id in (None, one.log_id))
    )
