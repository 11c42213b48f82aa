"""Operations on messages (reference 6): objects by ``type``, and frames."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import Arguments
from culm_models.conform.dag.arguments import CID
from culm_models.conform.forms import REQUIRED, Choice, Member, Record, nullable
from culm_models.conform.operation import Machines, Operation
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.wire.codec import FrameReader, frame_of
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
    {"data": Member(name="bytes"), "tip": Member(nullable(CID), default=None)},
    hello=Record(DagHello, members={"version": Member(default=REQUIRED)}, first=("version",)),
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
    reader = FrameReader()
    messages = reader.feed(arguments.octets("bytes"))
    # An error after whole frames belongs to this answer as well.
    reader.feed(b"")
    return {"messages": [_MESSAGES.show(message) for message in messages], "used": reader.used}


OPERATIONS: Final = (
    Operation("dag.message.encode", "message", "bytes (a frame)", _encode),
    Operation("dag.message.decode", "bytes", "messages, used (whole frames)", _decode),
)
