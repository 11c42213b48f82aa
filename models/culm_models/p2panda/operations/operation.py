"""Operations: the payloads of entries, which change documents (p2panda, "operations").

    create   [1, 0, schema id, fields]
    update   [1, 1, schema id, previous, fields]
    delete   [1, 2, schema id, previous]

Fields hold booleans, 64-bit integers, floats, texts, byte strings, arrays of operation ids (relation lists
and pinned relations) and arrays of such arrays (pinned relation lists). A relation is a byte string, too;
only the schema distinguishes them. Decoding accepts what p2panda nodes accept. Encoding writes the one
canonical form: shortest numbers, field names in the order of their UTF-8 bytes.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, NamedTuple

from culm_models import cbor
from culm_models.bamboo import checks
from culm_models.bamboo.checks import CheckedEntry
from culm_models.cbor.strict import FLAT_MAX_DEPTH, decode_item
from culm_models.frozen import unfrozen
from culm_models.p2panda.errors import (
    OperationError,
    OperationItemCountError,
    OperationTooLargeError,
    ValueKindError,
)
from culm_models.p2panda.operations import identifiers
from culm_models.p2panda.operations.reader import (
    CREATE,
    DELETE,
    ITEM_COUNT,
    VERSION,
    Parts,
    Value,
    read_operation,
)
from culm_models.p2panda.operations.values import is_view_id, settle_fields
from culm_models.p2panda.wire.messages import MAX_OPERATION_BYTES

__all__ = [
    "ACTIONS",
    "Action",
    "CheckedOperation",
    "Operation",
    "OperationError",
    "OperationFacts",
    "Value",
    "check_entry",
    "check_many",
    "check_size",
    "decode_operation",
    "encode_operation",
    "peek",
]

Action = Literal["create", "update", "delete"]
ACTIONS: Final[tuple[Action, ...]] = ("create", "update", "delete")


class OperationFacts(NamedTuple):
    """Facts of an operation about its document, without its fields; `previous` is None for a create."""

    action: Action
    schema_id: str
    previous: tuple[bytes, ...] | None

    @property
    def deletes(self) -> bool:
        """Whether the operation deletes its document."""
        return self.action == "delete"


# The constructor of a named tuple costs several times as much, for every entry of a deployment.
_new_tuple = tuple.__new__


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation: `previous` is None for a create, `fields` is None for a delete."""

    version: int
    action: Action
    schema_id: str
    previous: tuple[bytes, ...] | None
    fields: dict[str, Value] | None


_UnfrozenOperation = unfrozen(Operation)


def decode_operation(data: bytes) -> Operation:
    """Decode an operation. Raises `OperationError` and `SchemaIdError`."""
    action, schema, previous, fields = _parse(data, with_fields=True)
    operation: Operation = _UnfrozenOperation(VERSION, ACTIONS[action], schema, previous, fields)
    operation.__class__ = Operation
    return operation


def peek(data: bytes) -> OperationFacts:
    """Return an operation's facts without its fields, after the same checks as `decode_operation`."""
    action, schema, previous, _ = _parse(data, with_fields=False)
    return _new_tuple(OperationFacts, (ACTIONS[action], schema, previous))


def _parse(data: bytes, *, with_fields: bool) -> Parts:
    """Read the usual encoding quickly; leave all other encodings to the slow reader."""
    try:
        items = decode_item(data, max_depth=FLAT_MAX_DEPTH)
        action = items[1]
        # `type` and not `isinstance`: True does not count as 1 here.
        if (
            type(action) is int
            and type(items[0]) is int
            and items[0] == VERSION
            and type(items) is list
            and len(items) == ITEM_COUNT[action]
            and type(items[2]) is str
        ):
            previous = fields = None
            usual = True
            if action != CREATE:
                previous = items[3]
                usual = is_view_id(previous)
                previous = tuple(previous) if usual else None
            if action != DELETE:
                fields = items[-1]
                usual = usual and settle_fields(fields, as_tuples=with_fields)
            if usual:
                return action, identifiers.canonical_text(items[2]), previous, fields
    except identifiers.SchemaIdError:
        raise
    except Exception:
        # The decoder raises several kinds of exception; the slow reader decides, and names the cause.
        return read_operation(data)
    return read_operation(data)


def encode_operation(
    action: Action,
    schema: str,
    *,
    previous: tuple[bytes, ...] | None = None,
    fields: dict[str, Value] | None = None,
) -> bytes:
    """Return the canonical bytes of an operation. Raises the errors of decoding them."""
    code = ACTIONS.index(action)
    if (previous is None) != (code == CREATE):
        raise OperationItemCountError(
            f"{action} operations have {'no' if code == CREATE else 'their'} previous ones"
        )
    if (fields is None) != (code == DELETE):
        raise OperationItemCountError(
            f"{action} operations have {'no' if code == DELETE else 'their'} fields"
        )
    items: list[Any] = [VERSION, code, schema]
    if previous is not None:
        items.append(previous)
    if fields is not None:
        items.append({name: fields[name] for name in sorted(fields)})
    try:
        data = cbor.dumps(items)
    except cbor.CborError as error:
        raise ValueKindError(str(error)) from error
    decode_operation(data)
    return data


def check_size(operation: bytes) -> None:
    """Raise `OperationTooLargeError` if no message of the protocol can carry these bytes.

    Entries are checked when they are received. Entries from a store or a topic are read without this check.
    """
    if len(operation) > MAX_OPERATION_BYTES:
        raise OperationTooLargeError(
            f"an operation of {len(operation)} bytes, at most {MAX_OPERATION_BYTES} are allowed"
        )


CheckedOperation = CheckedEntry[OperationFacts]
"""An entry whose payload is an operation; `hash` identifies both."""

check_entry: Final = partial(checks.check_entry, read_facts=peek)
"""Check an entry with its operation: Bamboo's rules for the entry; form and schema id of the operation."""

check_many: Final = partial(checks.check_many, read_facts=peek)
"""Check many (entry bytes, operation bytes).

Returns, in order, the checked entry or the error that refuses it.
"""
