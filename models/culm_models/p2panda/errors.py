"""Errors of bytes, operations, messages and sessions: one class for each rule, with its code.

The modules for ids, announcements and readers declare the errors that only they raise.
"""

from culm_models.errors import ModelError


class P2pandaError(ModelError, code="p2panda"):
    """Bytes or events that break a rule of p2panda's data model or of its replication protocol."""


class PeerSettingsError(P2pandaError, code="p2panda.settings"):
    """Settings of a peer that are out of bounds or contradict each other."""


class SessionError(P2pandaError, code="p2panda.session"):
    """Base class of errors around sessions."""


class UnsupportedModeError(SessionError, code="p2panda.session.mode"):
    """A replication mode that is not supported."""


class EmptySetError(SessionError, code="p2panda.session.empty_set"):
    """A session without any schema."""


class TooManySchemasError(SessionError, code="p2panda.session.too_many_schemas"):
    """A session with more schemas than are accepted."""


class NotAnnouncedError(SessionError, code="p2panda.session.not_announced"):
    """A schema of the request is not in the latest announcement."""


class DuplicateSessionError(SessionError, code="p2panda.session.duplicate"):
    """A session with this id, or with exactly these schemas, exists already."""


class TooManySessionsError(SessionError, code="p2panda.session.too_many"):
    """The maximum number of sessions with this remote is reached."""


class UnknownSessionError(SessionError, code="p2panda.session.unknown"):
    """A message for a session that does not exist, or that exists no more."""


class HaveRepeatedError(SessionError, code="p2panda.session.have_repeated"):
    """A second `Have` in one session."""


class UnexpectedMessageError(SessionError, code="p2panda.session.unexpected_message"):
    """A message that does not belong to the session's mode."""


class SessionTimeoutError(SessionError, code="p2panda.session.timeout"):
    """The session had no activity for too long."""


class AbandonedError(SessionError, code="p2panda.session.abandoned"):
    """The remote requests a session in place of one that it has given up."""


class DisconnectedError(SessionError, code="p2panda.session.disconnected"):
    """The link went down while the session was open."""


class NotConnectedError(SessionError, code="p2panda.session.not_connected"):
    """There is no link to this remote, or the link can no longer carry messages."""


class RefusedError(SessionError, code="p2panda.session.refused"):
    """The remote does not accept the session that we requested, or gives it up."""


class OutOfTurnError(SessionError, code="p2panda.session.out_of_turn"):
    """A batch of set reconciliation that came before our last one can have reached the remote."""


class UnreadError(SessionError, code="p2panda.session.unread"):
    """The remote continues set reconciliation but does not read our answers."""


class HaveTooLargeError(SessionError, code="p2panda.session.have_too_large"):
    """The heights held for a schema do not fit in one `Have` and may not be sent in parts."""


class OperationError(P2pandaError, code="p2panda.operation"):
    """Bytes that are not an operation that a p2panda node accepts."""


class MalformedOperationError(OperationError, code="p2panda.operation.malformed"):
    """Not CBOR, or CBOR of a different shape."""


class OperationTooLargeError(OperationError, code="p2panda.operation.too_large"):
    """An operation that is too large for any message."""


class VersionError(OperationError, code="p2panda.operation.version"):
    """An operation version that is not known."""


class ActionError(OperationError, code="p2panda.operation.action"):
    """An action other than create, update and delete."""


class OperationItemCountError(OperationError, code="p2panda.operation.item_count"):
    """More or fewer items than the action requires."""


class PreviousError(OperationError, code="p2panda.operation.previous"):
    """The previous operations are not a document view id."""


class FieldOrderError(OperationError, code="p2panda.operation.field_order"):
    """Field names that are not sorted, or repeated."""


class ValueKindError(OperationError, code="p2panda.operation.value"):
    """A field name or value of a type that fields cannot have."""


class SchemaMismatchError(OperationError, code="p2panda.operation.schema"):
    """Fields that the operation's schema does not have, or values that it does not allow."""


class MessageError(P2pandaError, code="p2panda.message"):
    """Bytes that are not a p2panda message."""


class MalformedMessageError(MessageError, code="p2panda.message.malformed"):
    """Not CBOR as messages use it, or not an array that starts with a message type."""


class TruncatedMessageError(MessageError, code="p2panda.message.truncated"):
    """The stream ended within a message."""


class MessageTooLargeError(MessageError, code="p2panda.message.too_large"):
    """The message is larger than this side accepts, or declares a larger size."""


class UnknownTypeError(MessageError, code="p2panda.message.unknown_type"):
    """A message type that the specification does not know."""


class ItemCountError(MessageError, code="p2panda.message.item_count"):
    """More or fewer items than a message of this type has."""


class ItemKindError(MessageError, code="p2panda.message.item_kind"):
    """An item of the wrong type for its position."""


class ItemRangeError(MessageError, code="p2panda.message.item_range"):
    """A number out of range: below 0, above 2**64 - 1, or the sequence number 0."""


class PublicKeyError(MessageError, code="p2panda.message.public_key"):
    """A public key that is not 32 bytes long, or not in the form that this message uses."""


class FingerprintSizeError(MessageError, code="p2panda.message.fingerprint_size"):
    """A fingerprint with more bytes than any lift produces."""
