"""Reasons to refuse a Chotki session, packet, value or text: one class per rule, with its stable code."""

from culm_models.errors import ModelError


class ChotkiError(ModelError, code="chotki"):
    """Bytes, texts or events that break a rule of Chotki."""


class RecordMalformed(ChotkiError, code="chotki.record"):
    """A byte that begins no TLV header in the place of one, or a length beyond 31 bits."""


class RecordTooLarge(ChotkiError, code="chotki.record_size"):
    """A record whose header announces more bytes than this side accepts."""


class PacketMalformed(ChotkiError, code="chotki.packet"):
    """A packet whose inner records do not fill it, or whose first record does not fit its letter."""


class LetterUnknown(ChotkiError, code="chotki.letter"):
    """A packet with an unknown letter."""


class HandshakeMalformed(ChotkiError, code="chotki.handshake"):
    """A first packet that is not a handshake, or a handshake without mode, vector or trace id of 10 bytes."""


class ModeUnknown(ChotkiError, code="chotki.mode"):
    """A mode with bits other than read, write and live."""


class HandshakeTimeout(ChotkiError, code="chotki.handshake_timeout"):
    """The peer's handshake did not arrive in time."""


class SourceCollision(ChotkiError, code="chotki.source_collision"):
    """The peer uses this replica's source."""


class ReferenceWrong(ChotkiError, code="chotki.reference"):
    """An E or O that refers to 0-0, or a Y that refers to anything else."""


class OffsetWrong(ChotkiError, code="chotki.offset"):
    """An id or a reference with an offset where none may be, or a field number beyond 12 bits."""


class OwnIdMalformed(ChotkiError, code="chotki.own_id"):
    """An id of this replica's source with an offset: the replica never issued such an id."""


class PairLength(ChotkiError, code="chotki.pair_length"):
    """An id or a stamp whose length no pair of integers has."""


class FieldLetterUnknown(ChotkiError, code="chotki.field_letter"):
    """A field of a type that does not exist, or whose record lost its letter."""


class ValueMalformed(ChotkiError, code="chotki.value"):
    """A value that does not parse as its type."""


class FieldsMissing(ChotkiError, code="chotki.no_fields"):
    """A local commit of an object without fields."""


class SyncUnknown(ChotkiError, code="chotki.sync_unknown"):
    """A diff, or the end of a diff, whose sync was not announced, is over or was dropped."""


class SyncTooLarge(ChotkiError, code="chotki.sync_bytes"):
    """The diffs of one sync exceed the limit of this side."""


class SyncsTooMany(ChotkiError, code="chotki.sync_count"):
    """More open syncs on one connection than the limit of this side."""


class SyncExpired(ChotkiError, code="chotki.sync_expired"):
    """A sync whose next diff did not arrive in time."""


class SpoolFull(ChotkiError, code="chotki.spool_full"):
    """The disk has no capacity for this data while earlier data waits. The data itself is valid."""


class PingTimeout(ChotkiError, code="chotki.ping_timeout"):
    """Nothing was received within the waiting time of a ping."""


class PeerDeaf(ChotkiError, code="chotki.deaf"):
    """The peer goes on sending but answers no ping."""


class IdTextMalformed(ChotkiError, code="chotki.id_text"):
    """An ID in text form with a fourth part, or with a part that is too large."""


class TextMalformed(ChotkiError, code="chotki.rdx.text"):
    """A text that is not a value of its type."""
