"""Operations on messages (reference 6): objects by ``type``, and frames."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import CID
from culm_models.conform.forms import REQUIRED, Choice, MemberForm, RecordForm, nullable
from culm_models.conform.operation import ConformOperation, Machines
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.codec import DagMessageReader, frame_of
from culm_models.dag.wire.messages import (
    DagAck,
    DagBlocks,
    DagCancel,
    DagChunk,
    DagDone,
    DagHello,
    DagOffer,
    DagWant,
)

_MESSAGES: Final = Choice(
    {Cid: CID},
    {"data": MemberForm(name="bytes"), "tip": MemberForm(nullable(CID), default=None)},
    hello=RecordForm(DagHello, members={"version": MemberForm(default=REQUIRED)}, first=("version",)),
    offer=DagOffer,
    want=DagWant,
    cancel=DagCancel,
    node=DagBlocks,
    chunk=DagChunk,
    ack=DagAck,
    done=DagDone,
)


def _encode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    members = arguments.mapping("message")
    message = _MESSAGES.read(members)
    _MESSAGES.records[members["type"]].check_names(members.keys() - {"type"}, "the message")
    return {"bytes": frame_of(message).hex()}


def _decode(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    reader = DagMessageReader()
    messages = reader.feed(arguments.octets("bytes"))
    # An error after whole frames belongs to this answer as well.
    reader.feed(b"")
    return {"messages": [_MESSAGES.show(message) for message in messages], "used": reader.used}


OPERATIONS: Final = (
    ConformOperation("dag.message.encode", "message", "bytes (a frame)", _encode),
    ConformOperation("dag.message.decode", "bytes", "messages, used (whole frames)", _decode),
)
