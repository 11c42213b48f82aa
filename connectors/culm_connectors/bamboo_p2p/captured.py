"""Decodes the captured bytes of a connection message by message: either channel, or both within bymux.

The requests behind the bytes are not known here. Metadata has a backlink if the prefix of a hash follows its
type byte. Without a backlink the same bytes would be a size of 0 and the start of a hash, and no hash starts
so.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.errors import BambooP2pError
from culm_models.bamboo_p2p.wire.control import decode_control, decode_setup
from culm_models.bamboo_p2p.wire.data import decode_data
from culm_models.bamboo_p2p.wire.messages import CompressedPayload, RawPayload
from culm_models.bymux import CONTROL, DATA, BymuxError, FrameType, decode_frame


class Captured(StrEnum):
    """The captured channel, in one direction and from its beginning."""

    CONTROL = "control"
    DATA = "data"
    BYMUX = "bymux"


@dataclass(frozen=True, slots=True)
class Line:
    """One message. `offset` and `size` in bytes of its channel; payload bytes count but are not shown."""

    channel: Captured
    offset: int
    size: int
    message: str
    fields: dict[str, Any]


def explain(
    data: bytes, captured: Captured, flavour: HashFlavour, *, has_setup: bool = True
) -> Iterator[Line]:
    """Yield every message in order. The last line describes an incomplete or malformed rest."""
    match captured:
        case Captured.CONTROL:
            yield from _control(data, flavour, has_setup=has_setup)
        case Captured.DATA:
            yield from _data(data, flavour)
        case Captured.BYMUX:
            yield from _bymux(data, flavour, has_setup=has_setup)


def _control(data: bytes, flavour: HashFlavour, *, has_setup: bool) -> Iterator[Line]:
    channel, at = Captured.CONTROL, 0
    if has_setup:
        setup = decode_setup(data)
        if setup is None:
            yield _rest(channel, data, 0)
            return
        yield Line(channel, 0, setup[1], "Setup", asdict(setup[0]))
        at = setup[1]
    while at < len(data):
        try:
            decoded = decode_control(data, at, flavour)
        except BambooP2pError as error:
            yield _broken(channel, data, at, error)
            return
        if decoded is None:
            yield _rest(channel, data, at)
            return
        message, end = decoded
        yield Line(channel, at, end - at, type(message).__name__, _fields(message))
        at = end


def _data(data: bytes, flavour: HashFlavour) -> Iterator[Line]:
    channel, at = Captured.DATA, 0
    while at < len(data):
        start = at

        def expects_backlink(start: int = start) -> bool:
            return data.startswith(flavour.prefix, start + 1)

        try:
            decoded = decode_data(data, at, flavour, expects_backlink)
        except BambooP2pError as error:
            yield _broken(channel, data, at, error)
            return
        if decoded is None:
            yield _rest(channel, data, at)
            return
        message, end = decoded
        if isinstance(message, RawPayload):
            end += message.length
        elif isinstance(message, CompressedPayload):
            end += message.compressed_length
        fields = _fields(message)
        if end > len(data):
            fields["bytes_that_lack"] = end - len(data)
            end = len(data)
        yield Line(channel, at, end - at, type(message).__name__, fields)
        at = end


def _bymux(data: bytes, flavour: HashFlavour, *, has_setup: bool) -> Iterator[Line]:
    """Yield the frames first, then the messages of both channels within them."""
    at = 0
    setup = decode_setup(data) if has_setup else None
    if setup is not None:
        yield Line(Captured.BYMUX, 0, setup[1], "Setup", asdict(setup[0]))
        at = setup[1]
    inner = {CONTROL: bytearray(), DATA: bytearray()}
    while at < len(data):
        try:
            decoded = decode_frame(data, at)
        except BymuxError as error:
            yield _broken(Captured.BYMUX, data, at, error)
            break
        if decoded is None:
            yield _rest(Captured.BYMUX, data, at)
            break
        frame, end = decoded
        if frame.type is FrameType.WRITE:
            size = frame.amount or 0
            if frame.stream in inner:
                inner[frame.stream] += data[end : end + size]
            end = min(len(data), end + size)
        fields = {"stream": frame.stream, "amount": frame.amount}
        yield Line(Captured.BYMUX, at, end - at, frame.type.name.capitalize(), fields)
        at = end
    yield from _control(bytes(inner[CONTROL]), flavour, has_setup=False)
    yield from _data(bytes(inner[DATA]), flavour)


def _fields(message: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(message).items() if value is not None}


def _rest(channel: Captured, data: bytes, at: int) -> Line:
    return Line(channel, at, len(data) - at, "Incomplete", {"bytes": data[at : at + 32]})


def _broken(channel: Captured, data: bytes, at: int, error: BambooP2pError | BymuxError) -> Line:
    fields = {"code": error.code, "reason": str(error), "bytes": data[at : at + 32]}
    return Line(channel, at, len(data) - at, "Broken", fields)
