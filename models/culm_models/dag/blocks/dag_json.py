"""DAG-JSON: strict JSON in which `{"/": …}` is a link or bytes (reference 1.3, 3.3, 4.3).

`to_dag_json` and `from_dag_json` convert between values and the objects of `json`, `encode_dag_json` and
`decode_dag_json` between values and text. `strict_json` only parses the text.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable
from typing import Any, Final, NoReturn

from culm_models.dag.blocks.cid import Cid, cid_from_text
from culm_models.dag.blocks.dag_cbor import INTEGER_MAX, INTEGER_MIN, NESTING_MAX
from culm_models.dag.errors import DagJsonMalformed, NonCanonical

_RESERVED: Final = "/"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_INTEGER_DIGITS_MAX: Final = 20
_CANONICAL: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def to_dag_json(value: Any) -> Any:
    """Convert a value to objects that `json` can write.

    Raises `DagJsonMalformed` for a map with the key `/`, which DAG-JSON cannot express.
    """
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if kind is Cid:
        return {_RESERVED: value.text}
    if isinstance(value, bytes):
        return {_RESERVED: {"bytes": base64.b64encode(value).decode().rstrip("=")}}
    if isinstance(value, list | tuple):
        return [to_dag_json(item) for item in value]
    if isinstance(value, dict):
        if _RESERVED in value:
            raise DagJsonMalformed("a map with the key / cannot be written as DAG-JSON")
        return {key: to_dag_json(item) for key, item in value.items()}
    return value


def from_dag_json(value: Any, *, levels: int = NESTING_MAX) -> Any:
    """Convert the objects that `json` has read to a value.

    Raises `DagJsonMalformed` if the key `/` is used for anything but a link or bytes in canonical text.
    """
    if isinstance(value, dict):
        if _RESERVED in value:
            return _reserved(value)
        _require_level(levels)
        return {key: from_dag_json(item, levels=levels - 1) for key, item in value.items()}
    if isinstance(value, list):
        _require_level(levels)
        return [from_dag_json(item, levels=levels - 1) for item in value]
    return value


def encode_dag_json(value: Any) -> bytes:
    """Encode a value canonically: keys sorted bytewise at every level, no spaces, only necessary escapes."""
    try:
        # Code points sort as their UTF-8 does.
        return _CANONICAL.encode(to_dag_json(value)).encode()
    except UnicodeEncodeError:
        raise DagJsonMalformed("a text holds half a surrogate pair") from None


def encode_plain_dag_json(value: Any) -> bytes:
    """Encode like `encode_dag_json`, twice as fast. The value must not contain a map with the key `/`."""
    try:
        return _PLAIN.encode(value).encode()
    except UnicodeEncodeError:
        raise DagJsonMalformed("a text holds half a surrogate pair") from None


def _spelled(value: Any) -> Any:
    """Convert the values that `json` cannot write: links and bytes."""
    if isinstance(value, Cid):
        return {_RESERVED: value.text}
    if isinstance(value, bytes):
        return {_RESERVED: {"bytes": base64.b64encode(value).decode().rstrip("=")}}
    raise DagJsonMalformed(f"a value of the kind {type(value).__name__}")


_PLAIN: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), default=_spelled)


def decode_dag_json(data: bytes, *, floats: bool = True) -> Any:
    """Decode a value from JSON that `strict_json` accepts. Raises `DagJsonMalformed` or `CidMalformed`."""
    return from_dag_json(strict_json(data, floats=floats))


def strict_json(data: bytes, *, floats: bool = True) -> Any:
    """Parse JSON strictly: UTF-8, no repeated key, no NaN, no lone surrogate, the nesting limit of values.

    If `floats` is false, numbers with a decimal point or an exponent and -0 are refused, too. Raises
    `DagJsonMalformed`.
    """
    try:
        value = json.loads(
            data.decode(),
            object_pairs_hook=_pairs,
            parse_constant=_no_constant,
            parse_float=float if floats else _no_float,
            parse_int=_integer if floats else _plain_integer,
        )
        _check_text(value, NESTING_MAX)
        return value
    except (ValueError, RecursionError) as error:
        raise DagJsonMalformed(f"not strict JSON: {str(error)[:200]}") from None


def _reserved(value: dict[str, Any]) -> Any:
    inner = value[_RESERVED]
    if len(value) == 1 and isinstance(inner, str):
        return cid_from_text(inner)
    if (
        len(value) == 1
        and isinstance(inner, dict)
        and len(inner) == 1
        and isinstance(inner.get("bytes"), str)
    ):
        return _octets(inner["bytes"])
    raise DagJsonMalformed("the key / is neither a link nor bytes")


def _octets(text: str) -> bytes:
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if base64.b64encode(data).decode().rstrip("=") != text:
        raise DagJsonMalformed("bytes that are not base64 without padding")
    return data


def _require_level(levels: int) -> None:
    if not levels:
        raise NonCanonical(f"lists and maps are nested more than {NESTING_MAX} deep")


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise ValueError("a key is repeated")
    return members


def _check_text(value: Any, levels: int) -> None:
    """Raise `ValueError` if a text holds half a surrogate pair, or if lists and maps nest too deeply."""
    if isinstance(value, str):
        if _SURROGATE.search(value):
            raise ValueError("a text holds half a surrogate pair")
    elif isinstance(value, dict):
        # The two maps that express bytes, and the one that expresses a link, are not levels of the value.
        levels += 1 if _RESERVED in value else -1
        _check_text(" ".join(value), levels)
        _check_items(value.values(), levels)
    elif isinstance(value, list):
        _check_items(value, levels - 1)


def _check_items(items: Iterable[Any], levels: int) -> None:
    if levels < 0:
        raise ValueError(f"lists and maps are nested more than {NESTING_MAX} deep")
    for item in items:
        _check_text(item, levels)


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _no_float(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} is no integer")


def _integer(text: str) -> int:
    if len(text) > _INTEGER_DIGITS_MAX + 1:
        raise ValueError("an integer outside of -2^64 to 2^64-1")
    number = int(text)
    if not INTEGER_MIN <= number <= INTEGER_MAX:
        raise ValueError("an integer outside of -2^64 to 2^64-1")
    return number


def _plain_integer(text: str) -> int:
    if text == "-0":
        raise ValueError("-0 is no integer")
    return _integer(text)
