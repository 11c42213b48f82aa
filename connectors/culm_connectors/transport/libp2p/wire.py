"""The small encodings that libp2p is made of: unsigned varints, base58btc, protobuf fields, DER strings.

Every reader is strict and bounded by the length of its input. Errors: `WireError`.
"""

from __future__ import annotations

from collections.abc import Iterator

from culm_connectors.transport.libp2p.errors import WireError
from culm_models.varint import VarintCutOff, VarintTooLong, is_shortest, read_varint, write_varint

MAX_VARINT_BYTES = 9
_ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_DIGITS = {letter: digit for digit, letter in enumerate(_ALPHABET)}
_MAX_BASE58_LETTERS = 128
_LENGTH_DELIMITED = 2
_DER_OCTET_STRING = 0x04
_DER_SEQUENCE = 0x30


def decode_varint(data: bytes | bytearray, start: int = 0) -> tuple[int, int] | None:
    """Return the number at `start` and the offset behind it; `None` if the number is incomplete."""
    try:
        number, end = read_varint(data, start, MAX_VARINT_BYTES)
    except VarintCutOff:
        return None
    except VarintTooLong as error:
        raise WireError(str(error)) from None
    if not is_shortest(number, end - start):
        raise WireError("a varint is longer than it needs to be")
    return number, end


def encode_base58(data: bytes) -> str:
    """Base58 in Bitcoin's alphabet; each leading zero byte is a "1"."""
    zeros = len(data) - len(data.lstrip(b"\x00"))
    number = int.from_bytes(data)
    letters: list[str] = []
    while number:
        number, digit = divmod(number, 58)
        letters.append(_ALPHABET[digit])
    return "1" * zeros + "".join(reversed(letters))


def decode_base58(text: str) -> bytes:
    """The bytes of a base58 text of at most 128 letters."""
    if len(text) > _MAX_BASE58_LETTERS:
        raise WireError(f"a base58 text of {len(text)} letters is too long")
    number = 0
    for letter in text:
        digit = _DIGITS.get(letter)
        if digit is None:
            raise WireError(f"{letter!r} is no base58 letter")
        number = number * 58 + digit
    zeros = len(text) - len(text.lstrip("1"))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8)


def bytes_field(number: int, value: bytes) -> bytes:
    """A length-delimited protobuf field."""
    return write_varint(number << 3 | _LENGTH_DELIMITED) + write_varint(len(value)) + value


def number_field(number: int, value: int) -> bytes:
    """A varint protobuf field."""
    return write_varint(number << 3) + write_varint(value)


def read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Number and value of every field of a protobuf message; kinds that libp2p does not use are errors."""
    position = 0
    while position < len(message):
        key, position = _whole_varint(message, position)
        value, position = _whole_varint(message, position)
        if key & 7 == 0:
            yield key >> 3, value
            continue
        if key & 7 != _LENGTH_DELIMITED:
            raise WireError(f"protobuf field {key >> 3} is of a kind that is not used here")
        end = position + value
        if end > len(message):
            raise WireError(f"protobuf field {key >> 3} is cut off")
        yield key >> 3, message[position:end]
        position = end


def _whole_varint(message: bytes, position: int) -> tuple[int, int]:
    decoded = decode_varint(message, position)
    if decoded is None:
        raise WireError("a protobuf message is cut off")
    return decoded


def encode_der_strings(*values: bytes) -> bytes:
    """A DER sequence of octet strings."""
    return _der(_DER_SEQUENCE, b"".join(_der(_DER_OCTET_STRING, value) for value in values))


def decode_der_strings(data: bytes) -> list[bytes]:
    """The octet strings of a DER sequence, which must be all of `data`."""
    content, rest = _read_der(data, _DER_SEQUENCE)
    if rest:
        raise WireError("something follows the DER sequence")
    values = []
    while content:
        value, content = _read_der(content, _DER_OCTET_STRING)
        values.append(value)
    return values


def _der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _read_der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """The content of a DER element and what follows it; lengths are in their shortest form."""
    if len(data) < 2 or data[0] != tag:
        raise WireError(f"a DER element with tag {tag:#04x} is missing")
    size, start = data[1], 2
    if size >= 0x80:
        start += size & 0x7F
        length = data[2:start]
        size = int.from_bytes(length)
        if not 1 <= len(length) <= 3 or size < 0x80 or length[0] == 0:
            raise WireError("the length of a DER element is not in its shortest form")
    if start + size > len(data):
        raise WireError("a DER element is cut off")
    return data[start : start + size], data[start + size :]
