"""Fields of an operation as a person writes them: `name=value`, `name:type=value`, or from a file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from culm_connectors.p2panda.reference_peer.authoring import AuthoringError
from culm_models.p2panda.operations.identifiers import DocumentViewIdError, check_operation_id, view_id
from culm_models.p2panda.operations.operation import Value
from culm_models.p2panda.operations.reader import MAX_INTEGER, MIN_INTEGER
from culm_models.p2panda.operations.schema import FIELD_TYPES, FieldType
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.[0-9]*|\.?[0-9]+)([eE][+-]?[0-9]+)?")
_TYPES: Final = ", ".join(FIELD_TYPES)


def parse_fields(pairs: Sequence[str], files: Sequence[str] = ()) -> dict[str, Value]:
    """Fields from `name=value` or `name:type=value` texts, and from `name=path` or `name:type=path`.

    Without a type a value is a `str`, and what a file holds is `bytes`. `bytes` are in hex, as a `relation`
    is, an operation id; `relation_list` and `pinned_relation` are such ids, joined by commas;
    `pinned_relation_list` is such lists, joined by semicolons. An empty text is an empty list.
    Raises `AuthoringError`.
    """
    fields: dict[str, Value] = {}
    for pair in pairs:
        name, kind, text = _split(pair, "str", "NAME=VALUE or NAME:TYPE=VALUE")
        _add(fields, name, _value(name, kind, text))
    for pair in files:
        name, kind, path = _split(pair, "bytes", "NAME=PATH or NAME:TYPE=PATH")
        data = _read(Path(path))
        if kind == "bytes":
            _add(fields, name, data)
            continue
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise AuthoringError(f"{path} is not UTF-8 at byte {error.start}, so no {kind}") from error
        # A text file ends with a newline, which belongs to a text and to nothing else.
        _add(fields, name, _value(name, kind, text if kind == "str" else text.strip()))
    return fields


def untyped_numbers(pairs: Sequence[str]) -> Iterator[str]:
    """Yield advice for each field without a type whose text looks like a number or a truth value."""
    for pair in pairs:
        label, _, text = pair.partition("=")
        kind = _apparent_type(text)
        if ":" not in label and kind is not None:
            yield f"{pair[:80]} is published as text; write {label[:80]}:{kind}={text[:80]} for {_A[kind]}"


_A: Final = {"int": "an integer", "float": "a number", "bool": "a truth value"}


def _apparent_type(text: str) -> FieldType | None:
    if text in ("true", "false"):
        return "bool"
    if _INTEGER.fullmatch(text) is not None:
        return "int"
    return "float" if _DECIMAL.fullmatch(text) is not None else None


def _split(pair: str, default: FieldType, form: str) -> tuple[str, FieldType, str]:
    label, sign, text = pair.partition("=")
    name, colon, spelled = label.partition(":")
    if not sign or not name:
        raise AuthoringError(f"{pair[:200]!r} is not a field", hint=f"write {form}")
    if not colon:
        return name, default, text
    kind = next((field_type for field_type in FIELD_TYPES if field_type == spelled), None)
    if kind is None:
        raise AuthoringError(f"{spelled[:80]!r} is not a type of a field", hint=f"one of {_TYPES}")
    return name, kind, text


def _add(fields: dict[str, Value], name: str, value: Value) -> None:
    if name in fields:
        raise AuthoringError(f"the field {name[:80]} is given twice")
    fields[name] = value


def _read(path: Path) -> bytes:
    """Raises `AuthoringError`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_OPERATION_BYTES + 1)
    except (OSError, ValueError) as error:
        raise AuthoringError(f"{str(path)[:200]} cannot be read: {error}") from error
    if len(data) > MAX_OPERATION_BYTES:
        raise AuthoringError(
            f"{path} has more than {MAX_OPERATION_BYTES} bytes, which no operation can hold",
            hint="publish a large file as a blob: pieces of up to 256000 bytes each",
        )
    return data


def _value(name: str, kind: FieldType, text: str) -> Value:
    try:
        return _PARSERS[kind](text)
    except (ValueError, DocumentViewIdError) as error:
        raise AuthoringError(f"{name[:80]}: {text[:80]!r} is not of the type {kind}: {error}") from error


def _integer(text: str) -> int:
    if _INTEGER.fullmatch(text) is None or not MIN_INTEGER <= int(text) <= MAX_INTEGER:
        raise ValueError("an int is a decimal number of 64 bits")
    return int(text)


def _boolean(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("write true or false")
    return text == "true"


def _id(text: str) -> bytes:
    operation_id = bytes.fromhex(text)
    check_operation_id(operation_id)
    return operation_id


def _ids(text: str) -> tuple[bytes, ...]:
    return tuple(map(_id, text.split(","))) if text else ()


def _view(text: str) -> tuple[bytes, ...]:
    ids = _ids(text)
    if len(set(ids)) < len(ids):
        raise ValueError("an operation id is repeated")
    return view_id(ids)


def _views(text: str) -> tuple[tuple[bytes, ...], ...]:
    return tuple(map(_view, text.split(";"))) if text else ()


_PARSERS: Final[Mapping[FieldType, Callable[[str], Value]]] = {
    "str": str,
    "int": _integer,
    "float": float,
    "bool": _boolean,
    "bytes": bytes.fromhex,
    "relation": _id,
    "relation_list": _ids,
    "pinned_relation": _view,
    "pinned_relation_list": _views,
}
