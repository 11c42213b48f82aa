"""Operations on pools, setup bytes, messages of both channels, and LZFoo."""

from __future__ import annotations

from typing import Any, Final

from culm_models.bamboo.certificate_pool import lower_pool, shortest_path, upper_pool
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup, encode_control, encode_setup
from culm_models.bamboo_p2p.wire.data import decode_data, encode_data
from culm_models.bamboo_p2p.wire.messages import CompressedPayload, RawPayload
from culm_models.bymux import DEFAULT_WINDOW, Endpoint, Frame, FrameType, decode_frame, encode_frame
from culm_models.conform.arguments import U64_MAX, ArgumentError, Arguments, as_mapping
from culm_models.conform.bamboo_p2p.messages import SETUP, control_messages, data_messages, flavour_of
from culm_models.conform.operation import ConformOperation, MachineKind, Machines
from culm_models.lzfoo import Compressor, decompress, literals


def _pool(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    if arguments.has("n"):
        number = arguments.integer("n", min_value=1)
        return {"lower": lower_pool(number), "upper": upper_pool(number)}
    start = arguments.integer("start", min_value=1)
    return {"path": shortest_path(start, arguments.integer("end", min_value=start))}


def _setup_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    return {"bytes": encode_setup(SETUP.read(arguments.values)).hex()}


def _setup_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    decoded = decode_setup(arguments.octets("bytes"))
    if decoded is None:
        return {"used": 0}
    setup, used = decoded
    return {**SETUP.show(setup), "used": used}


def _control_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    message = control_messages(flavour_of(arguments)).read(arguments.mapping("message"))
    return {"bytes": encode_control(message).hex()}


def _control_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data, flavour = arguments.octets("bytes"), flavour_of(arguments)
    messages, used = [], 0
    while (decoded := decode_control(data, used, flavour)) is not None:
        messages.append(control_messages(flavour).show(decoded[0]))
        used = decoded[1]
    return {"messages": messages, "used": used}


def _data_encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    members = arguments.mapping("message")
    fields = Arguments(members)
    kind = fields.text("type")
    if kind not in ("raw", "compressed"):
        return {"bytes": encode_data(data_messages(flavour_of(arguments)).read(members)).hex()}
    body = fields.octets("bytes")
    head = RawPayload(len(body)) if kind == "raw" else CompressedPayload(fields.integer("length"), len(body))
    return {"bytes": (encode_data(head) + body).hex()}


def _data_decode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    expected = arguments.items("backlink_expected", default=[])
    if not all(isinstance(flag, bool) for flag in expected):
        raise ArgumentError("backlink_expected is not a list of true and false")
    return decode_all_data(arguments.octets("bytes"), flavour_of(arguments), expected)


def decode_all_data(data: bytes, flavour: HashFlavour, backlink_expected: list[bool]) -> dict[str, Any]:
    """Return all whole messages of the data channel, payloads with their bytes."""
    messages: list[dict[str, Any]] = []
    used = metadata = 0
    while True:
        expects = metadata < len(backlink_expected) and backlink_expected[metadata]
        decoded = decode_data(data, used, flavour, lambda expects=expects: expects)  # type: ignore[misc]
        if decoded is None:
            break
        message, end = decoded
        if isinstance(message, RawPayload | CompressedPayload):
            is_raw = isinstance(message, RawPayload)
            length = message.length if isinstance(message, RawPayload) else message.compressed_length
            if end + length > len(data):
                break
            body = data[end : end + length].hex()
            messages.append(
                {"type": "raw", "bytes": body}
                if is_raw
                else {"type": "compressed", "length": message.length, "bytes": body}
            )
            end += length
        else:
            messages.append(data_messages(flavour).show(message))
            metadata += messages[-1]["type"] == "metadata"
        used = end
    return {"messages": messages, "used": used}


def _lzfoo_compress(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    data, window = arguments.octets("bytes"), arguments.integer("window")
    compressed = Compressor(window, _history(arguments)).compress(data)
    # On a connection, data that compression does not shorten is sent raw; here the caller asks for LZFoo
    # anyway.
    return {"bytes": (literals(data) if compressed is None else compressed).hex()}


def _lzfoo_decompress(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    plain = decompress(
        arguments.octets("bytes"),
        window=arguments.integer("window", default=U64_MAX),
        history=_history(arguments),
        length=arguments.optional_integer("length"),
    )
    return {"bytes": plain.hex()}


def _history(arguments: Arguments) -> bytes:
    return arguments.optional_octets("history") or b""


_ENDPOINTS: Final = MachineKind[Endpoint]("bymux")
_TYPES: Final = {kind.name.lower(): kind for kind in FrameType}


def _encode(_machines: Machines, arguments: Arguments) -> dict[str, Any]:
    encoded = b""
    for members in arguments.items("frames"):
        frame = Arguments(as_mapping(members, "frames"))
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
    while (decoded := decode_frame(data, used)) is not None:
        frame, end = decoded
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
    ConformOperation("bamboo.pool", "n, or start and end", "lower and upper, or path", _pool),
    ConformOperation(
        "bamboo_p2p.setup.encode",
        "send? (safe), receive? (safe), send_window, receive_window",
        "bytes",
        _setup_encode,
    ),
    ConformOperation(
        "bamboo_p2p.setup.decode",
        "bytes",
        "send, receive, send_window, receive_window, used",
        _setup_decode,
    ),
    ConformOperation("bamboo_p2p.control.encode", "message, hash? (yamf)", "bytes", _control_encode),
    ConformOperation("bamboo_p2p.control.decode", "bytes, hash? (yamf)", "messages, used", _control_decode),
    ConformOperation("bamboo_p2p.data.encode", "message, hash? (yamf)", "bytes", _data_encode),
    ConformOperation(
        "bamboo_p2p.data.decode",
        "bytes, backlink_expected? (of each metadata), hash? (yamf)",
        "messages, used",
        _data_decode,
    ),
    ConformOperation("lzfoo.compress", "bytes, window, history?", "bytes", _lzfoo_compress),
    ConformOperation(
        "lzfoo.decompress",
        "bytes, history?, window? (all of it), length? (of the output)",
        "bytes",
        _lzfoo_decompress,
    ),
    ConformOperation("bymux.encode", "frames ([{type, stream?, amount?, bytes?}])", "bytes", _encode),
    ConformOperation("bymux.decode", "bytes", "frames, used", _decode),
    ConformOperation("bymux.open", "name, window? (262144)", "send", _open),
    ConformOperation("bymux.write", "name, stream (0, 1), bytes", "send", _write),
    ConformOperation("bymux.receive", "name, bytes", "send, streams, dropped?", _receive),
    ConformOperation("bymux.consumed", "name, stream (0, 1), amount", "send", _consumed),
)
