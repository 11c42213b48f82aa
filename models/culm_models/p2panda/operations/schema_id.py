"""Schema ids, and sets of them as announcements and requests carry them (p2panda, "replication").

A system schema is a known name and a version, `schema_definition_v1`. An application schema is a name and
the ids of the operations that define it, `venue_0020…[_0020…]`: sorted, without repeats. A set is written
in one order only: schema definitions, field definitions, blobs, blob pieces, then application schemas by
name and ids, compared as names and ids and not as whole texts.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from culm_models.p2panda.errors import P2pandaError

SYSTEM_NAMES = ("schema_definition", "schema_field_definition", "blob", "blob_piece")
MAX_VERSION = 255

_SYSTEM_RANK = {name: rank for rank, name in enumerate(SYSTEM_NAMES)}
_APPLICATION_RANK = len(SYSTEM_NAMES)
# Versions may carry a plus sign and zeros in front: the p2panda node reads them as plain numbers.
_SYSTEM = re.compile(rf"({'|'.join(SYSTEM_NAMES)})_v\+?0*([0-9]{{1,3}})")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}[A-Za-z0-9]")
_OPERATION_IDS = re.compile(r"(?:_00[0-9a-fA-F]{66})+")
_OPERATION_ID_LENGTH = 69

# Texts come from peers: only short ones are remembered, so that the memory for them is bounded.
_REMEMBERED_TEXTS = 4096
_REMEMBERED_LENGTH = 512
_SHOWN_LENGTH = 100


class SchemaIdError(P2pandaError, code="p2panda.schema_id"):
    """A text that is no schema id, or a list that is no schema id set."""


@dataclass(frozen=True, slots=True)
class SchemaId:
    """A parsed schema id: `version` for a system schema, `operation_ids` (hex) for an application schema."""

    name: str
    version: int | None
    operation_ids: tuple[str, ...]

    @staticmethod
    def parse(text: str) -> "SchemaId":
        """The schema id that `text` spells. Raises `SchemaIdError`."""
        return _parse_remembered(text) if len(text) <= _REMEMBERED_LENGTH else _parse(text)

    @property
    def is_system(self) -> bool:
        """Whether every p2panda peer knows this schema without having received it."""
        return self.version is not None

    @property
    def sort_key(self) -> tuple[int, int, str, tuple[str, ...]]:
        """What orders schema ids in a set."""
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
    """Name and operation ids of an application schema; None where it is none. Raises `SchemaIdError`."""
    # Names are shorter than operation ids, so the whole length says where the name ends.
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
    """The spelling under which schema ids are compared. Raises `SchemaIdError`."""
    return _placed(text)[0]


def normalise(texts: Iterable[str]) -> tuple[str, ...]:
    """The schema ids as a set in its one order. Raises `SchemaIdError`."""
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
    """The text under which a schema id is compared, and what orders it."""
    return _placed_remembered(text) if len(text) <= _REMEMBERED_LENGTH else _place(text)


def _place(text: str) -> tuple[str, tuple[int, int, str, tuple[str, ...]]]:
    # Announcements name thousands of these, and strangers choose them: no object is made of each.
    application = _application(text)
    if application is not None:
        return text, (_APPLICATION_RANK, 0, *application)
    parsed = _parse(text)
    return str(parsed), parsed.sort_key


_placed_remembered = lru_cache(maxsize=_REMEMBERED_TEXTS)(_place)
