"""What can be wrong with bytes, operations, messages and sessions: one class a rule, with its code.

Ids, announcements and readers declare the error that is theirs alone.
"""

from culm_models.errors import ModelError


class P2pandaError(ModelError, code="p2panda"):
    """Bytes or events that break a rule of p2panda's data model or of its replication protocol."""


class PeerSettingsError(P2pandaError, code="p2panda.settings"):
    """Settings of a peer that are out of bounds, or do not fit each other."""


class SessionError(P2pandaError, code="p2panda.session"):
    """The base of what can be wrong around sessions."""


class UnsupportedModeError(SessionError, code="p2panda.session.mode"):
    """A replication mode that is not spoken here."""


class EmptySetError(SessionError, code="p2panda.session.empty_set"):
    """A session about no schema at all."""


class TooManySchemasError(SessionError, code="p2panda.session.too_many_schemas"):
    """A session about more schemas than are taken."""


class NotAnnouncedError(SessionError, code="p2panda.session.not_announced"):
    """A schema of the request is not in the latest announcement."""


class DuplicateSessionError(SessionError, code="p2panda.session.duplicate"):
    """A session with this id, or about these very schemas, exists already."""


class TooManySessionsError(SessionError, code="p2panda.session.too_many"):
    """There are as many sessions with this remote as are allowed."""


class UnknownSessionError(SessionError, code="p2panda.session.unknown"):
    """A message for a session that does not exist, or no longer."""


class HaveRepeatedError(SessionError, code="p2panda.session.have_repeated"):
    """A second `Have` in one session."""


class UnexpectedMessageError(SessionError, code="p2panda.session.unexpected_message"):
    """A message that the session's mode does not have."""


class SessionTimeoutError(SessionError, code="p2panda.session.timeout"):
    """Nothing happened for too long."""


class AbandonedError(SessionError, code="p2panda.session.abandoned"):
    """The remote asks for a session in the place of one that it has given up."""


class DisconnectedError(SessionError, code="p2panda.session.disconnected"):
    """The link went down while the session was open."""


class NotConnectedError(SessionError, code="p2panda.session.not_connected"):
    """There is no link to this remote, or nothing can be said on it any more."""


class RefusedError(SessionError, code="p2panda.session.refused"):
    """The remote does not hold the session that we asked for, or gives it up."""


class OutOfTurnError(SessionError, code="p2panda.session.out_of_turn"):
    """A batch of set reconciliation before our last one can have reached the remote."""


class UnreadError(SessionError, code="p2panda.session.unread"):
    """The remote goes on with set reconciliation and does not read what it is answered."""


class HaveTooLargeError(SessionError, code="p2panda.session.have_too_large"):
    """What we hold of one schema does not fit a `Have`, and is not to be told in part."""


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


class MessageError(P2pandaError, code="p2panda.message"):
    """Bytes that are no p2panda message."""


class MalformedMessageError(MessageError, code="p2panda.message.malformed"):
    """Not CBOR as messages use it, or not an array that starts with a message type."""


class TruncatedMessageError(MessageError, code="p2panda.message.truncated"):
    """The stream ended within a message."""


class MessageTooLargeError(MessageError, code="p2panda.message.too_large"):
    """The message is, or declares itself to be, larger than this side takes."""


class UnknownTypeError(MessageError, code="p2panda.message.unknown_type"):
    """A message type that the specification does not know."""


class ItemCountError(MessageError, code="p2panda.message.item_count"):
    """More or fewer items than a message of this type has."""


class ItemKindError(MessageError, code="p2panda.message.item_kind"):
    """An item of another kind than the one that belongs in this place."""


class ItemRangeError(MessageError, code="p2panda.message.item_range"):
    """A number out of range: below 0, above 2**64 - 1, or the sequence number 0."""


class PublicKeyError(MessageError, code="p2panda.message.public_key"):
    """A public key that is not 32 bytes, or spelled otherwise than here."""


class FingerprintSizeError(MessageError, code="p2panda.message.fingerprint_size"):
    """A fingerprint of more bytes than any lift gives."""
