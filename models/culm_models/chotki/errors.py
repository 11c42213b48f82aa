"""Why a Chotki session, packet, value or text is refused: one class a rule, each with its stable code."""

from culm_models.errors import ModelError


class ChotkiError(ModelError, code="chotki"):
    """Bytes, texts or events that break a rule of Chotki."""


class RecordMalformed(ChotkiError, code="chotki.record"):
    """A byte where a TLV header must begin that begins none, or a length beyond 31 bits."""


class RecordTooLarge(ChotkiError, code="chotki.record_size"):
    """A record whose header announces more bytes than this side takes."""


class PacketMalformed(ChotkiError, code="chotki.packet"):
    """A packet whose inner records do not fill it, or that does not begin as its letter wants."""


class LetterUnknown(ChotkiError, code="chotki.letter"):
    """A packet with a letter that no packet has."""


class HandshakeMalformed(ChotkiError, code="chotki.handshake"):
    """A first packet that is no handshake, or a handshake without mode, vector or trace id of 10 bytes."""


class ModeUnknown(ChotkiError, code="chotki.mode"):
    """A mode with other bits than read, write and live."""


class HandshakeTimeout(ChotkiError, code="chotki.handshake_timeout"):
    """The peer's handshake did not come in time."""


class SourceCollision(ChotkiError, code="chotki.source_collision"):
    """The peer says that it is this replica's source."""


class ReferenceWrong(ChotkiError, code="chotki.reference"):
    """An E or O that refers to 0-0, or a Y that refers to anything else."""


class OffsetWrong(ChotkiError, code="chotki.offset"):
    """An id or a reference with an offset where none may be, or a field number beyond 12 bits."""


class OwnIdMalformed(ChotkiError, code="chotki.own_id"):
    """An id of this replica's source with an offset: it gave no such id."""


class PairLength(ChotkiError, code="chotki.pair_length"):
    """An id or a stamp of a length that no pair of integers has."""


class FieldLetterUnknown(ChotkiError, code="chotki.field_letter"):
    """A field of a type that does not exist, or whose record has lost its letter."""


class ValueMalformed(ChotkiError, code="chotki.value"):
    """A value that does not parse as its type."""


class FieldsMissing(ChotkiError, code="chotki.no_fields"):
    """A local commit of an object without fields."""


class SyncUnknown(ChotkiError, code="chotki.sync_unknown"):
    """A diff, or the end of one, of a sync that was not announced, is over or was dropped."""


class SyncTooLarge(ChotkiError, code="chotki.sync_bytes"):
    """The diffs of one sync exceed what this side keeps."""


class SyncsTooMany(ChotkiError, code="chotki.sync_count"):
    """More syncs open on one connection than this side keeps."""


class SyncExpired(ChotkiError, code="chotki.sync_expired"):
    """A sync whose next diff did not come in time."""


class SpoolFull(ChotkiError, code="chotki.spool_full"):
    """What comes finds no room on disk while what came before waits. Nothing is wrong with it."""


class PingTimeout(ChotkiError, code="chotki.ping_timeout"):
    """Nothing came in the time that a ping waits."""


class PeerDeaf(ChotkiError, code="chotki.deaf"):
    """The peer goes on writing and answers no ping."""


class IdTextMalformed(ChotkiError, code="chotki.id_text"):
    """A text of an ID with a fourth part, or a part that is too large."""


class TextMalformed(ChotkiError, code="chotki.rdx.text"):
    """A text that is no value of its type."""
