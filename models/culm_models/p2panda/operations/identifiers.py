"""Ids of schemas, and sets of them as in announcements; ids of documents and of their views.

A system schema is a known name and a version, `schema_definition_v1`. An application schema is a name and the
ids of the operations that define it, `venue_0020…[_0020…]`: sorted, without repeats. A set has only one
order: schema definitions, field definitions, blobs, blob pieces, then application schemas by name and ids,
compared as names and ids and not as whole texts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from culm_models.bamboo import hashes as yasmf
from culm_models.p2panda.errors import P2pandaError

SYSTEM_NAMES = ("schema_definition", "schema_field_definition", "blob", "blob_piece")
MAX_VERSION = 255

_SYSTEM_RANK = {name: rank for rank, name in enumerate(SYSTEM_NAMES)}
_APPLICATION_RANK = len(SYSTEM_NAMES)
# Versions may have a plus sign and leading zeros: the p2panda node reads them as plain numbers.
_SYSTEM = re.compile(rf"({'|'.join(SYSTEM_NAMES)})_v\+?0*([0-9]{{1,3}})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}[A-Za-z0-9]")
_OPERATION_IDS = re.compile(r"(?:_00[0-9a-fA-F]{66})+")
_OPERATION_ID_LENGTH = 69

# Texts come from peers. Only short ones are cached, to bound the memory.
_REMEMBERED_TEXTS = 4096
_REMEMBERED_LENGTH = 512
_SHOWN_LENGTH = 100


class SchemaIdError(P2pandaError, code="p2panda.schema_id"):
    """A text that is not a schema id, or a list that is not a schema id set."""


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A parsed schema id: `version` for a system schema, `operation_ids` (hex) for an application schema."""

    name: str
    version: int | None
    operation_ids: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> "SchemaId":
        """Parse a schema id. Raises `SchemaIdError`."""
        return _parse_remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parse(text)

    @property
    def is_system(self) -> bool:
        """Whether every p2panda peer knows this schema without having received it."""
        return self.version is not None

    @property
    def sort_key(self) -> tuple[int, int, str, tuple[str, ...]]:
        """Sort key of schema ids in a set."""
        if self.version is not None:
            return _SYSTEM_RANK[self.name], self.version, "", ()
        return _APPLICATION_RANK, 0, self.name, self.operation_ids

    def __str__(self) -> str:
        if self.version is not None:
            return f"{self.name}_v{self.version}"
        return "_".join((self.name, *self.operation_ids))


def _parse(text: str) -> SchemaId:
    application = _application(text)
    if application is not None:
        return SchemaId(application[0], None, application[1])
    match = _SYSTEM.fullmatch(text)
    if match is None or int(match[2]) > MAX_VERSION:
        raise SchemaIdError(f"{_shown(text)} is no schema id")
    return SchemaId(match[1], int(match[2]), ())


def _application(text: str) -> tuple[str, tuple[str, ...]] | None:
    """Return name and operation ids of an application schema; None for other texts.

    Raises `SchemaIdError`.
    """
    # Names are shorter than operation ids, so the total length determines where the name ends.
    end = len(text) % _OPERATION_ID_LENGTH
    if _NAME.fullmatch(text, 0, end) is None or _OPERATION_IDS.fullmatch(text, end) is None:
        return None
    operation_ids = tuple(text[end + 1 :].split("_"))
    if len(operation_ids) > 1 and any(a >= b for a, b in pairwise(operation_ids)):
        raise SchemaIdError(f"the operation ids of {_shown(text)} are not sorted and unique")
    return text[:end], operation_ids


_parse_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(_parse)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_LENGTH else f"{text[:_SHOWN_LENGTH]}…")


def canonical_text(text: str) -> str:
    """Return the form in which schema ids are compared. Raises `SchemaIdError`."""
    return _placed(text)[0]


def normalise(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the schema ids as a sorted set. Raises `SchemaIdError`."""
    unique = dict(map(_placed, texts))
    return tuple(sorted(unique, key=unique.__getitem__))


def is_schema_id(text: str) -> bool:
    """Return whether the text is a schema id."""
    try:
        _placed(text)
    except SchemaIdError:
        return False
    return True


def _placed(text: str) -> tuple[str, tuple[int, int, str, tuple[str, ...]]]:
    """Return the text by which a schema id is compared, and its sort key."""
    return _placed_remembered(text) if len(text) <= _REMEMBERED_LENGTH else _place(text)


def _place(text: str) -> tuple[str, tuple[int, int, str, tuple[str, ...]]]:
    # Announcements name thousands of schema ids, chosen by strangers, so no object is created for each.
    application = _application(text)
    if application is not None:
        return text, (_APPLICATION_RANK, 0, *application)
    parsed = _parse(text)
    return str(parsed), parsed.sort_key


_placed_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(_place)


# Documents. An operation's id is the hash of the entry that carries it, and a document's id is the id of the
# operation that created it: both are 34 raw bytes. A document view id names a state by the ids of the
# operations that no other operation follows yet: sorted, without repeats, at least one. In text they are hex,
# joined by `_`.

DocumentId = bytes
OperationId = bytes
DocumentViewId = tuple[OperationId, ...]

OPERATION_ID_PREFIX = b"\x00"
_HEX_SIZE = 2 * yasmf.HASH_SIZE


class DocumentViewIdError(P2pandaError, code="p2panda.document_view_id"):
    """A malformed operation id, or a list of them that is unsorted, has repeats, or is empty."""


def view_id(operation_ids: Iterable[OperationId]) -> DocumentViewId:
    """Return the view id of these operations, given in any order. Raises `DocumentViewIdError`."""
    view = tuple(sorted(set(operation_ids)))
    check_view_id(view)
    return view


def check_operation_id(operation_id: bytes) -> None:
    """Raise `DocumentViewIdError` unless p2panda nodes accept `operation_id` as one."""
    if len(operation_id) != yasmf.HASH_SIZE or not operation_id.startswith(OPERATION_ID_PREFIX):
        raise DocumentViewIdError(f"an operation id has {yasmf.HASH_SIZE} bytes, the first of them 0")


def check_view_id(view: tuple[bytes, ...]) -> None:
    """Raise `DocumentViewIdError` unless `view` is a document view id."""
    if not view:
        raise DocumentViewIdError("a document view id names at least one operation")
    for operation_id in view:
        check_operation_id(operation_id)
    if any(a >= b for a, b in pairwise(view)):
        raise DocumentViewIdError("the operation ids are not sorted and unique")


def parse_view_id(text: str) -> DocumentViewId:
    """Parse a view id with hex digits of either case. Raises `DocumentViewIdError`.

    The order is checked on the text, as the p2panda node does.
    """
    parts = text.split("_")
    if any(a >= b for a, b in pairwise(parts)):
        raise DocumentViewIdError("the operation ids are not sorted and unique")
    return tuple(parse_operation_id(part) for part in parts)


def parse_operation_id(text: str) -> OperationId:
    """Parse the id of an operation or document, of hex digits. Raises `DocumentViewIdError`."""
    # `fromhex` alone would also skip white space.
    try:
        operation_id = bytes.fromhex(text) if len(text) == _HEX_SIZE else b""
    except ValueError as error:
        raise DocumentViewIdError(f"an operation id is {_HEX_SIZE} hex digits") from error
    check_operation_id(operation_id)
    return operation_id
