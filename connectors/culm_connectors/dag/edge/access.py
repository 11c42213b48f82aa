"""Meaning of the allow-list's table `spaces` for DAG replication: rights to append to and read a space (R14).

A name in a list is a space (64 hex digits), or `*`. The prefix `read:` allows only reading, and `append:`
only sending nodes and shards. Publishing needs no entry in the list, since the publish carries its own proof.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.http.settings import AccessMode
from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal
from culm_models.dag.errors import Blocked, SpaceNotAllowed
from culm_models.dag.exchange.settings import SpaceAbility, SpaceAccess

TABLE: Final = "spaces"
_PREFIXES: Final = {SpaceAbility.APPEND: "append:", SpaceAbility.READ: "read:"}
Shown = Callable[[bytes, SpaceAbility], bool]
"""Returns whether the UCANs shown on a connection now grant an ability in a space."""


def nothing_shown(space: bytes, ability: SpaceAbility) -> bool:
    """Implement `Shown` for a peer that has shown no UCAN."""
    return False


@dataclass(frozen=True, slots=True)
class EdgeAccess:
    """The access rules of one edge, as they are now."""

    access: AccessWatch
    settings: DagEdgeSettings

    def judge(self, principal: Principal) -> Refusal | None:
        """Return why a principal may not connect, or None if it may."""
        if {self.settings.append, self.settings.read} == {"allowed"}:
            return self.access.rules(TABLE).judge(principal)
        return None

    def may_stay(self, name: str) -> bool:
        """Return whether a principal may stay connected."""
        if {self.settings.append, self.settings.read} == {"allowed"}:
            return self.access.rules(TABLE).of(name) != frozenset()
        return True

    def allows(self, name: str, space: bytes, ability: SpaceAbility, shown: Shown = nothing_shown) -> bool:
        """Return whether a principal has an ability in a space."""
        mode = self._mode(ability)
        if mode == "anyone" or (mode == "ucan" and shown(space, ability)):
            return True
        rules = self.access.rules(TABLE)
        if mode == "ucan" and name not in rules.principals:
            # In this mode a principal that is not named has to show a UCAN, even if there is no allow-list.
            return False
        allowed = rules.of(name)
        prefix = _PREFIXES[ability]
        names = {space.hex(), f"{prefix}{space.hex()}", f"{prefix}*"}
        return allowed is None or not allowed.isdisjoint(names)

    def of(self, name: str, shown: Shown, blocked: Callable[[bytes], str | None]) -> SpaceAccess:
        """Return the access check for a principal's connection.

        `blocked` returns why a space is blocked, or None.
        """

        def judge(space: bytes, ability: SpaceAbility) -> str | None:
            if ability is SpaceAbility.APPEND and blocked(space) is not None:
                return Blocked.code
            return None if self.allows(name, space, ability, shown) else SpaceNotAllowed.code

        return judge

    def _mode(self, ability: SpaceAbility) -> AccessMode:
        return self.settings.append if ability is SpaceAbility.APPEND else self.settings.read
