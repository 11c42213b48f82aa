"""Operations on bymux: its frames, and one end of a connection (R60)."""

from __future__ import annotations

from typing import Any, Final

from culm_models.bymux import Endpoint
from culm_models.bymux.endpoint import DEFAULT_WINDOW
from culm_models.bymux.frames import Frame, FrameType, decode_frame, encode_frame
from culm_models.conform.arguments import ArgumentError, Arguments, as_mapping
from culm_models.conform.operation import Kind, Machines, Operation

_ENDPOINTS: Final = Kind[Endpoint]("bymux")
_TYPES: Final = {kind.name.lower(): kind for kind in FrameType}


def _encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    encoded = b""
    for given in arguments.items("frames"):
        frame = Arguments(as_mapping(given, "frames"))
        kind, stream = frame.word("type", _TYPES), frame.optional_integer("stream")
        if kind is FrameType.WRITE and stream is not None:
            body = frame.octets("bytes")
            encoded += encode_frame(Frame(kind, stream, len(body))) + body
        else:
            has_amount = kind in (FrameType.CREDIT, FrameType.WRITE)
            encoded += encode_frame(Frame(kind, stream, frame.integer("amount") if has_amount else None))
    return {"bytes": encoded.hex()}


def _decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data = arguments.octets("bytes")
    frames: list[dict[str, Any]] = []
    used = 0
    while (found := decode_frame(data, used)) is not None:
        frame, end = found
        shown: dict[str, Any] = {"type": frame.type.name.lower()}
        if frame.stream is not None:
            shown["stream"] = frame.stream
        if frame.type is FrameType.WRITE and frame.stream is not None:
            length = frame.amount or 0
            if end + length > len(data):
                break
            shown["bytes"] = data[end : end + length].hex()
            end += length
        elif frame.amount is not None:
            shown["amount"] = frame.amount
        frames.append(shown)
        used = end
    return {"frames": frames, "used": used}


def _open(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    endpoint = Endpoint(arguments.integer("window", default=DEFAULT_WINDOW))
    _ENDPOINTS.put(machines, arguments, endpoint)
    return {"send": endpoint.take().hex()}


def _write(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    endpoint = _ENDPOINTS.get(machines, arguments)
    endpoint.write(_stream(arguments), arguments.octets("bytes"))
    return {"send": endpoint.take().hex()}


def _receive(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    endpoint = _ENDPOINTS.get(machines, arguments)
    came = endpoint.receive(arguments.octets("bytes"))
    streams: list[dict[str, Any]] = []
    for stream, data in came:
        if streams and streams[-1]["stream"] == stream:
            streams[-1]["bytes"] += data.hex()
        else:
            streams.append({"stream": stream, "bytes": data.hex()})
    answer = {"send": endpoint.take().hex(), "streams": streams}
    if endpoint.dropped is not None:
        _ENDPOINTS.close(machines, arguments)
        answer["dropped"] = endpoint.dropped.code
    return answer


def _consumed(machines: Machines, arguments: Arguments) -> dict[str, Any]:
    endpoint = _ENDPOINTS.get(machines, arguments)
    endpoint.consumed(_stream(arguments), arguments.integer("amount"))
    return {"send": endpoint.take().hex()}


def _stream(arguments: Arguments) -> int:
    stream = arguments.integer("stream")
    if stream > 1:
        raise ArgumentError("stream is not one of 0, 1")
    return stream


OPERATIONS = (
    Operation("bymux.encode", "frames ([{type, stream?, amount?, bytes?}])", "bytes", _encode),
    Operation("bymux.decode", "bytes", "frames, used", _decode),
    Operation("bymux.open", "name, window? (262144)", "send", _open),
    Operation("bymux.write", "name, stream (0, 1), bytes", "send", _write),
    Operation("bymux.receive", "name, bytes", "send, streams, dropped?", _receive),
    Operation("bymux.consumed", "name, stream (0, 1), amount", "send", _consumed),
)
