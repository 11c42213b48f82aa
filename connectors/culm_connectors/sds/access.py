"""The allow-list's table `channels`: the channels that a key may join."""

from __future__ import annotations

from dataclasses import dataclass

from culm_connectors.edge.access import AccessWatch
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal

TABLE = "channels"


@dataclass(frozen=True, slots=True)
class ChannelAccess:
    """The rules for channels as they are now."""

    access: AccessWatch

    def judge(self, principal: Principal) -> Refusal | None:
        """Return the reason for refusing a principal; None if it may connect."""
        return self.access.rules(TABLE).judge(principal)

    def permit(self, remote: bytes, channel_id: str) -> bool:
        """Whether a peer may join a channel."""
        return self.access.rules(TABLE).allows(remote.hex(), channel_id)
