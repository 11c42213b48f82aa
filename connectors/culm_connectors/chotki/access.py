"""What the allow-list's table `replicas` means here: who may connect at all, in either direction."""

from __future__ import annotations

from dataclasses import dataclass

from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal

TABLE = "replicas"


@dataclass(frozen=True, slots=True)
class ReplicaAccess:
    """The rules for replicas as they are now."""

    access: AccessWatch

    def judge(self, principal: Principal) -> Refusal | None:
        """Whether somebody may come in."""
        return self.access.rules(TABLE).judge(principal)
