"""Decodes refused bytes: as a record of their topic, and with the operations of `culm conform`.

Refused bytes are often malformed, so that no form applies; then the result is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from culm_infra import protocols
from culm_infra.rejections.records import BYTES
from culm_models.errors import CulmError
from culm_topics.catalogue.topics import spec
from culm_topics.records import YAMF_LOG_KEY_SIZE

if TYPE_CHECKING:
    from culm_infra.rejections.records import Rejection

_NESTING: Final = 8


def decoded_forms(rejection: Rejection) -> dict[str, dict[str, Any]]:
    """Return the decoded forms of the refused bytes: by item of the record, then by form.

    A form is the class of a record of the origin topic, or an operation of `culm conform`.
    """
    decoded: dict[str, dict[str, Any]] = {}
    for name in BYTES:
        data = getattr(rejection.record, name)
        if not data:
            continue
        forms: dict[str, Any] = {}
        for record_name, record in _records(data, rejection.topic):
            forms[record_name] = _plain(record)
            for item, value in _byte_items(record):
                forms |= {f"{record_name}.{item}, {form}": v for form, v in _messages(value, rejection)}
        if forms or (forms := dict(_messages(data, rejection))):
            decoded[name] = forms
    return decoded


def _records(data: bytes, topic: str | None) -> Iterator[tuple[str, Any]]:
    """Yield the name of a record class of the topic and the record, for the first that accepts the bytes."""
    for target in () if topic is None else spec(topic).records:
        module, _, name = target.partition(":")
        try:
            record = getattr(import_module(module), name).decode(data)
        except CulmError:
            continue
        yield name, record
        return


def _byte_items(record: Any) -> Iterator[tuple[str, bytes]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if isinstance(value, bytes) and value:
            yield field.name, value


def _messages(data: bytes, rejection: Rejection) -> Iterator[tuple[str, Any]]:
    """Yield the first operation of the protocol that decodes the bytes, and its answer."""
    from culm_models.conform.arguments import Arguments
    from culm_models.conform.dispatch import OPERATIONS
    from culm_models.conform.operation import Machines

    by_name = {operation.name: operation for operation in OPERATIONS}
    is_yamf = len(rejection.key) == YAMF_LOG_KEY_SIZE
    for name, argument, more in protocols.DECODERS.get(rejection.protocol, ()):
        if "hash" in more and (more["hash"] == "yamf") != is_yamf:
            continue
        try:
            answer = by_name[name].run(Machines(), Arguments({argument: data.hex(), **more}))
        except CulmError:
            continue
        profile = more.get("profile")
        yield (name if profile is None else f"{name}, profile {profile}"), answer
        return


def _plain(value: Any, nesting: int = 0) -> Any:
    """Return a record as JSON values; bytes become hex."""
    if nesting > _NESTING:
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name), nesting + 1) for field in fields(value)}
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).hex()
    if isinstance(value, Mapping):
        return {str(name): _plain(item, nesting + 1) for name, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item, nesting + 1) for item in value]
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)
