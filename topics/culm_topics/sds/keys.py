"""The keys of the SDS topics, and the partition of a channel.

Most topics are keyed by the channel id in UTF-8. In `sds.index` and `sds.acks` the ids are concatenated, each
but the last after its length as u16, most significant byte first: a channel's rows share a prefix.
"""

from dataclasses import dataclass
from enum import IntEnum

from xxhash import xxh64_intdigest

from culm_topics.errors import RecordError
from culm_topics.records.shape import require, utf8_size

MAX_ID_BYTES = 1_024
"""Limit of channel, participant and message ids in a record, in bytes of UTF-8."""


def is_id(text: str, *, empty: bool = False) -> bool:
    """Whether `text` may be an id in these records: not empty unless `empty`, at most `MAX_ID_BYTES`."""
    return (0 if empty else 1) <= utf8_size(text) <= MAX_ID_BYTES


def require_id(record: str, name: str, text: str) -> None:
    """Raise `RecordError` for an id that records do not accept."""
    require(is_id(text), record, f"{name} is no id of at most {MAX_ID_BYTES} bytes")


def shard_of(channel_id: str, partitions: int) -> int:
    """Return the partition of a channel's records: its id's XXH64 (seed 42, signed) modulo `partitions`.

    This is Spark's `pmod(xxhash64(key), partitions)`. Producers name the partition explicitly, because the
    clients' own partitioners would hash the key differently.
    """
    hashed = xxh64_intdigest(channel_id.encode(), seed=42)
    return int(hashed - (hashed >> 63 << 64)) % partitions


def channel_key(channel_id: str) -> bytes:
    """Return the key of a channel's records. Raises `RecordError` if the id is malformed."""
    require_id("channel key", "channel_id", channel_id)
    return channel_id.encode()


def split_channel_key(key: bytes | None) -> str:
    """Return the channel id in the key. Raises `RecordError` if it is malformed."""
    return _id(key, "channel key")


def index_key(channel_id: str, message_id: str) -> bytes:
    """Return the key of a message in `sds.index`. Raises `RecordError` if an id is malformed."""
    return _counted(channel_id) + _last(message_id)


def split_index_key(key: bytes | None) -> tuple[str, str]:
    """Return (channel id, message id). Raises `RecordError` if the key is malformed."""
    channel_id, rest = _split(key, "sds.index key")
    return channel_id, _id(rest, "sds.index key")


def owner_key(channel_id: str, participant_id: str = "") -> bytes:
    """Return the key of a participant id in `sds.owners`, or of the channel itself."""
    return _counted(channel_id) + (_last(participant_id) if participant_id else b"")


def split_owner_key(key: bytes | None) -> tuple[str, str]:
    """Return (channel id, participant id or ""). Raises `RecordError` if the key is malformed."""
    channel_id, rest = _split(key, "sds.owners key")
    return channel_id, _id(rest, "sds.owners key") if rest else ""


class AckKind(IntEnum):
    """Kind of a record of `sds.acks`; the first byte of its key."""

    CHANNEL = 0
    PARTICIPANT = 1
    MESSAGE = 2


@dataclass(frozen=True, slots=True)
class AckKey:
    """Key of `sds.acks`: a channel's summary, a hosted participant of it, or a message of that participant.

    The ids that are present determine the kind.
    """

    channel_id: str
    participant_id: str | None = None
    message_id: str | None = None

    @property
    def kind(self) -> AckKind:
        """The kind of the record under this key."""
        if self.participant_id is None:
            return AckKind.CHANNEL
        return AckKind.PARTICIPANT if self.message_id is None else AckKind.MESSAGE

    def encode(self) -> bytes:
        """Return `kind`, channel id and participant id, each after its length, then the message id."""
        key = bytes((self.kind,)) + _counted(self.channel_id)
        if self.participant_id is not None:
            key += _counted(self.participant_id)
        if self.message_id is not None:
            key += _last(self.message_id)
        return key


def split_ack_key(key: bytes | None) -> AckKey:
    """Return the key of a record of `sds.acks`. Raises `RecordError` if it is malformed."""
    if not key or key[0] > AckKind.MESSAGE:
        raise RecordError("sds.acks key: it does not start with a kind")
    kind = AckKind(key[0])
    channel_id, rest = _split(key[1:], "sds.acks key")
    participant_id = message_id = None
    if kind is not AckKind.CHANNEL:
        participant_id, rest = _split(rest, "sds.acks key")
    if kind is AckKind.MESSAGE:
        message_id, rest = _id(rest, "sds.acks key"), b""
    if rest:
        raise RecordError(f"sds.acks key: {len(rest)} bytes behind its last id")
    return AckKey(channel_id, participant_id, message_id)


def _counted(text: str) -> bytes:
    raw = _last(text)
    return len(raw).to_bytes(2, "big") + raw


def _last(text: str) -> bytes:
    require_id("key", "a part", text)
    return text.encode()


def _split(key: bytes | None, name: str) -> tuple[str, bytes]:
    if key is None or len(key) < 2:
        raise RecordError(f"{name}: it is cut off before an id")
    end = 2 + int.from_bytes(key[:2], "big")
    if len(key) < end:
        raise RecordError(f"{name}: it is cut off within an id")
    return _id(key[2:end], name), key[end:]


def _id(raw: bytes | None, name: str) -> str:
    if not raw or len(raw) > MAX_ID_BYTES:
        raise RecordError(f"{name}: an id of {len(raw or b'')} bytes, not 1 to {MAX_ID_BYTES}")
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"{name}: an id is not UTF-8") from error
