"""Operations on p2panda messages: encoding one, and decoding a stream of them that arrives in any pieces."""

from __future__ import annotations

from typing import Any, Final

from culm_models.conform.arguments import ArgumentError, Arguments
from culm_models.conform.forms import HIDDEN, Choice, Member, Record, integer, octets, optional, row, sequence
from culm_models.conform.operation import Kind, Machines, Operation
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.wire.codec import Compat, Form, MessageStream, encode
from culm_models.p2panda.wire.messages import (
    MAX_MESSAGE_BYTES,
    Announce,
    EntryMessage,
    Have,
    SyncDone,
    SyncRequest,
)
from culm_models.reconciliation.messages import (
    Done,
    EmptyPayload,
    EmptySet,
    Fingerprint,
    LowerBound,
    Payload,
    Terminal,
)

_STREAMS: Final = Kind[MessageStream]("p2panda.stream")
_COMPAT: Final[dict[str, Compat]] = {"spec": "spec", "aquadoggo": "aquadoggo"}
_FORMS: Final[dict[str, Form]] = {"hex": "hex", "compact": "compact"}
_LARGEST_LIMIT_BYTES: Final = 1 << 30
_KEY: Final = octets(PUBLIC_KEY_SIZE)
_TRIPLE: Final = row(_KEY, integer(), integer())
_RECONCILIATION: Final = {Any: _TRIPLE}
"""Items and bounds of set reconciliation: public key, log id, sequence number."""
MESSAGES: Final = Choice(
    _RECONCILIATION,
    {"raw": HIDDEN},
    announce=Announce,
    sync_request=SyncRequest,
    entry=EntryMessage,
    sync_done=SyncDone,
    have=Record(Have, members={"log_heights": Member(sequence(row(_KEY, integer(), integer(least=1))))}),
    empty_set=EmptySet,
    lower_bound=LowerBound,
    payload=Record(Payload, _RECONCILIATION, {"upper_bound": Member(optional(_TRIPLE))}),
    empty_payload=EmptyPayload,
    done=Done,
    fingerprint=Record(Fingerprint, _RECONCILIATION, {"fingerprint": Member(octets())}),
    terminal=Terminal,
)
"""The messages of p2panda, as docs/conform.md shows them."""


def _message_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    compat = arguments.word("compat", _COMPAT, default="spec")
    form = arguments.word("form", _FORMS, default="hex")
    given = arguments.mapping("message")
    fields = Arguments(given)
    if given.get("type") == "payload" and fields.has("upper_bound") and not fields.has("can_respond"):
        raise ArgumentError("a payload has an upper_bound only with a can_respond")
    return {"bytes": encode(MESSAGES.read(given), compat, form).hex()}


def _stream_open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    limit = arguments.integer(
        "max_message_bytes", least=1, most=_LARGEST_LIMIT_BYTES, default=MAX_MESSAGE_BYTES
    )
    _STREAMS.put(machines, arguments, MessageStream(max_message_bytes=limit))
    return {}


def _stream_feed(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    messages = _STREAMS.get(machines, arguments).feed(arguments.octets("bytes"))
    return {"messages": [MESSAGES.show(message) for message in messages]}


OPERATIONS = [
    Operation(
        "p2panda.message.encode",
        "message, compat? (spec or aquadoggo), form? (hex or compact)",
        "bytes",
        _message_encode,
    ),
    Operation("p2panda.stream.open", "name, max_message_bytes?", "", _stream_open),
    Operation("p2panda.stream.feed", "name, bytes", "messages completed by these bytes", _stream_feed),
    Operation("p2panda.stream.close", "name", "", _STREAMS.close),
]
