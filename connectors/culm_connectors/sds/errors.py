"""Errors of the SDS edge: one class per rule, each with its stable code."""

from __future__ import annotations

from typing import ClassVar

from culm_connectors.errors import ConnectorError


class SdsEdgeError(ConnectorError):
    """A frame, a join or a request that the edge does not accept, or an edge that does not answer."""

    code: ClassVar[str] = "sds.edge"


class OwnedSenderError(SdsEdgeError):
    """A message under the sender id of another key that is not a copy of a message by its owner."""

    code: ClassVar[str] = "sds.sender.owned"


class StateError(SdsEdgeError):
    """The folder of a participant's state is damaged, in use, or belongs to another participant."""

    code: ClassVar[str] = "sds.state"


class JoinRefusedError(SdsEdgeError):
    """The edge does not let this participant into the channel."""

    code: ClassVar[str] = "sds.join.refused"


class CommandRefusedError(SdsEdgeError):
    """The edge, or the job behind it, does not do what a client asked for."""

    code: ClassVar[str] = "sds.command.refused"
