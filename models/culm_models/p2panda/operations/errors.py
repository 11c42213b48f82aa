"""What can be wrong with an operation: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.p2panda.errors import P2pandaError


class OperationError(P2pandaError):
    """Bytes that are no operation that a p2panda node would take."""

    code: ClassVar[str] = "p2panda.operation"


class MalformedOperationError(OperationError):
    """Not CBOR, or CBOR of another shape."""

    code: ClassVar[str] = "p2panda.operation.malformed"


class OperationTooLargeError(OperationError):
    """An operation that no message can carry."""

    code: ClassVar[str] = "p2panda.operation.too_large"


class VersionError(OperationError):
    """An operation version that is not known."""

    code: ClassVar[str] = "p2panda.operation.version"


class ActionError(OperationError):
    """An action other than create, update and delete."""

    code: ClassVar[str] = "p2panda.operation.action"


class OperationItemCountError(OperationError):
    """More or fewer items than the action has."""

    code: ClassVar[str] = "p2panda.operation.item_count"


class PreviousError(OperationError):
    """The previous operations are no document view id."""

    code: ClassVar[str] = "p2panda.operation.previous"


class FieldOrderError(OperationError):
    """Field names that are not sorted, or repeated."""

    code: ClassVar[str] = "p2panda.operation.field_order"


class ValueKindError(OperationError):
    """A field name or value of a kind that fields do not have."""

    code: ClassVar[str] = "p2panda.operation.value"


class SchemaMismatchError(OperationError):
    """Fields that the operation's schema does not have, or values that it does not allow."""

    code: ClassVar[str] = "p2panda.operation.schema"
