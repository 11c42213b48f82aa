"""Why a Chotki session, packet, value or text is refused: one class a rule, each with its stable code."""

from typing import ClassVar

from culm_models.errors import ModelError


class ChotkiError(ModelError):
    """Bytes, texts or events that break a rule of Chotki."""

    code: ClassVar[str] = "chotki"


class RecordMalformed(ChotkiError):
    """A byte where a TLV header must begin that begins none, or a length beyond 31 bits."""

    code: ClassVar[str] = "chotki.record"


class RecordTooLarge(ChotkiError):
    """A record whose header announces more bytes than this side takes."""

    code: ClassVar[str] = "chotki.record_size"


class PacketMalformed(ChotkiError):
    """A packet whose inner records do not fill it, or that does not begin as its letter wants."""

    code: ClassVar[str] = "chotki.packet"


class LetterUnknown(ChotkiError):
    """A packet with a letter that no packet has."""

    code: ClassVar[str] = "chotki.letter"


class HandshakeMalformed(ChotkiError):
    """A first packet that is no handshake, or a handshake without mode, vector or trace id of 10 bytes."""

    code: ClassVar[str] = "chotki.handshake"


class ModeUnknown(ChotkiError):
    """A mode with other bits than read, write and live."""

    code: ClassVar[str] = "chotki.mode"


class HandshakeTimeout(ChotkiError):
    """The peer's handshake did not come in time."""

    code: ClassVar[str] = "chotki.handshake_timeout"


class SourceCollision(ChotkiError):
    """The peer says that it is this replica's source."""

    code: ClassVar[str] = "chotki.source_collision"


class ReferenceWrong(ChotkiError):
    """An E or O that refers to 0-0, or a Y that refers to anything else."""

    code: ClassVar[str] = "chotki.reference"


class OffsetWrong(ChotkiError):
    """An id or a reference with an offset where none may be, or a field number beyond 12 bits."""

    code: ClassVar[str] = "chotki.offset"


class OwnIdMalformed(ChotkiError):
    """An id of this replica's source with an offset: it gave no such id."""

    code: ClassVar[str] = "chotki.own_id"


class PairLength(ChotkiError):
    """An id or a stamp of a length that no pair of integers has."""

    code: ClassVar[str] = "chotki.pair_length"


class FieldLetterUnknown(ChotkiError):
    """A field of a type that does not exist, or whose record has lost its letter."""

    code: ClassVar[str] = "chotki.field_letter"


class ValueMalformed(ChotkiError):
    """A value that does not parse as its type."""

    code: ClassVar[str] = "chotki.value"


class FieldsMissing(ChotkiError):
    """A local commit of an object without fields."""

    code: ClassVar[str] = "chotki.no_fields"


class SyncUnknown(ChotkiError):
    """A diff, or the end of one, of a sync that was not announced, is over or was dropped."""

    code: ClassVar[str] = "chotki.sync_unknown"


class SyncTooLarge(ChotkiError):
    """The diffs of one sync exceed what this side keeps."""

    code: ClassVar[str] = "chotki.sync_bytes"


class SyncsTooMany(ChotkiError):
    """More syncs open on one connection than this side keeps."""

    code: ClassVar[str] = "chotki.sync_count"


class SyncExpired(ChotkiError):
    """A sync whose next diff did not come in time."""

    code: ClassVar[str] = "chotki.sync_expired"


class SpoolFull(ChotkiError):
    """What comes finds no room on disk while what came before waits. Nothing is wrong with it."""

    code: ClassVar[str] = "chotki.spool_full"


class PingTimeout(ChotkiError):
    """Nothing came in the time that a ping waits."""

    code: ClassVar[str] = "chotki.ping_timeout"


class PeerDeaf(ChotkiError):
    """The peer goes on writing and answers no ping."""

    code: ClassVar[str] = "chotki.deaf"


class IdTextMalformed(ChotkiError):
    """A text of an ID with a fourth part, or a part that is too large."""

    code: ClassVar[str] = "chotki.id_text"


class TextMalformed(ChotkiError):
    """A text that is no value of its type."""

    code: ClassVar[str] = "chotki.rdx.text"
