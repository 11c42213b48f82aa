"""What the allow-list's table `spaces` means here: who may bring to a space, and who may read it (R14).

A name in a list is a space (64 hex digits), or `*`; `read:` before it allows to read alone, `append:` to
bring nodes and shards alone. Publishing needs none of it: the proof speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from culm_connectors.dag.edge.settings import AccessMode, DagEdgeSettings
from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal
from culm_models.dag.errors import Blocked, SpaceNotAllowed
from culm_models.dag.exchange.settings import SpaceAbility, SpaceAccess

TABLE: Final = "spaces"
_PREFIXES: Final = {SpaceAbility.APPEND: "append:", SpaceAbility.READ: "read:"}
Shown = Callable[[bytes, SpaceAbility], bool]
"""Whether UCANs that were shown on a connection open something now."""


def nothing_shown(space: bytes, ability: SpaceAbility) -> bool:
    """Of who has shown no UCAN."""
    return False


@dataclass(frozen=True, slots=True)
class EdgeAccess:
    """The rules of one edge as they are now."""

    access: AccessWatch
    settings: DagEdgeSettings

    def judge(self, principal: Principal) -> Refusal | None:
        """Whether somebody may come in at all."""
        if {self.settings.append, self.settings.read} == {"allowed"}:
            return self.access.rules(TABLE).judge(principal)
        return None

    def may_stay(self, name: str) -> bool:
        """Whether a principal may stay connected."""
        if {self.settings.append, self.settings.read} == {"allowed"}:
            return self.access.rules(TABLE).of(name) != frozenset()
        return True

    def allows(self, name: str, space: bytes, ability: SpaceAbility, shown: Shown = nothing_shown) -> bool:
        """Whether a principal may do this in a space."""
        mode = self._mode(ability)
        if mode == "anyone" or (mode == "ucan" and shown(space, ability)):
            return True
        rules = self.access.rules(TABLE)
        if mode == "ucan" and name not in rules.principals:
            # Whoever is not named shows a UCAN, also where there is no list.
            return False
        allowed = rules.of(name)
        prefix = _PREFIXES[ability]
        names = {space.hex(), f"{prefix}{space.hex()}", f"{prefix}*"}
        return allowed is None or not allowed.isdisjoint(names)

    def of(self, name: str, shown: Shown, blocked: Callable[[bytes], str | None]) -> SpaceAccess:
        """What a principal may do on a connection. `blocked` says why a space is refused altogether."""

        def judge(space: bytes, ability: SpaceAbility) -> str | None:
            if ability is SpaceAbility.APPEND and blocked(space) is not None:
                return Blocked.code
            return None if self.allows(name, space, ability, shown) else SpaceNotAllowed.code

        return judge

    def _mode(self, ability: SpaceAbility) -> AccessMode:
        return self.settings.append if ability is SpaceAbility.APPEND else self.settings.read
