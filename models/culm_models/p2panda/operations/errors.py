"""What can be wrong with an operation: one class a rule, each with its stable code."""

from culm_models.p2panda.errors import P2pandaError


class OperationError(P2pandaError, code="p2panda.operation"):
    """Bytes that are no operation that a p2panda node would take."""


class MalformedOperationError(OperationError, code="p2panda.operation.malformed"):
    """Not CBOR, or CBOR of another shape."""


class OperationTooLargeError(OperationError, code="p2panda.operation.too_large"):
    """An operation that no message can carry."""


class VersionError(OperationError, code="p2panda.operation.version"):
    """An operation version that is not known."""


class ActionError(OperationError, code="p2panda.operation.action"):
    """An action other than create, update and delete."""


class OperationItemCountError(OperationError, code="p2panda.operation.item_count"):
    """More or fewer items than the action has."""


class PreviousError(OperationError, code="p2panda.operation.previous"):
    """The previous operations are no document view id."""


class FieldOrderError(OperationError, code="p2panda.operation.field_order"):
    """Field names that are not sorted, or repeated."""


class ValueKindError(OperationError, code="p2panda.operation.value"):
    """A field name or value of a kind that fields do not have."""


class SchemaMismatchError(OperationError, code="p2panda.operation.schema"):
    """Fields that the operation's schema does not have, or values that it does not allow."""
