"""The allow-list's table `peers`: the schemas that a key may replicate and may know of."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from culm_connectors.edge.access import AccessRules, AccessWatch, Allowed
from culm_connectors.rate_limit import LimitedLog
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import Principal
from culm_models.p2panda.wire.messages import Announce, Message, SyncRequest, is_marker

_LIMITED = LimitedLog(logging.getLogger(__name__))

TABLE = "peers"


def permitted(rules: AccessRules, peer_id: bytes, schema_ids: Iterable[str]) -> tuple[str, ...]:
    """Return the schemas that a peer may replicate, in their order. Offers are not schemas and are kept."""
    allowed = rules.of(peer_id.hex())
    if allowed is None:
        return tuple(schema_ids)
    return tuple(name for name in schema_ids if name in allowed or is_marker(name))


@dataclass(frozen=True, slots=True)
class SchemaAccess:
    """The rules for schemas as they are now."""

    access: AccessWatch

    def judge(self, principal: Principal) -> Refusal | None:
        """Return the reason for refusing a principal; None if it may connect."""
        return self.access.rules(TABLE).judge(principal)

    def schemas_of(self, remote: bytes) -> Allowed:
        """The schemas that a peer may replicate; None for all of them, empty for a stranger."""
        return self.access.rules(TABLE).of(remote.hex())

    def permit(self, remote: bytes, message: Message) -> Message | None:
        """Return a message without the schemas that the remote may not replicate, or None to drop it."""
        rules = self.access.rules(TABLE)
        if rules.of(remote.hex()) is None or not isinstance(message, Announce | SyncRequest):
            return message
        schema_ids = permitted(rules, remote, message.schema_ids)
        if len(schema_ids) == len(message.schema_ids):
            return message
        _LIMITED.warning("peer %s asks for schemas that it is not allowed", remote.hex()[:16])
        if isinstance(message, SyncRequest):
            return None
        return dataclasses.replace(message, schema_ids=schema_ids)
