"""The two text encodings of CIDs and keys: base32 in lower case, and base58btc.

`from_multibase` reads the further bases in which people may type them.
"""

from __future__ import annotations

import base64
import re
from typing import Final

_BASE32: Final = re.compile("[a-z2-7]*")
# Maps the letters of RFC 4648 to the digits that Python's `int` reads.
_AS_DIGITS: Final = str.maketrans("abcdefghijklmnopqrstuvwxyz234567", "0123456789abcdefghijklmnopqrstuv")
_BASE58: Final = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_BASE36: Final = "0123456789abcdefghijklmnopqrstuvwxyz"
_BASE16: Final = re.compile("(?:[0-9a-f]{2})*")
# Decoding a base that is not a power of two takes time quadratic in the size.
_SLOW_TEXT_MAX: Final = 1_024
_BASE58_DIGITS: Final = {letter: digit for digit, letter in enumerate(_BASE58)}


def base32(data: bytes) -> str:
    """Encode bytes in base32 of RFC 4648, in lower case and without padding."""
    return base64.b32encode(data).decode().rstrip("=").lower()


def from_base32(text: str) -> bytes | None:
    """Decode a text that `base32` has written. Returns None for any other text."""
    size, spare = divmod(5 * len(text), 8)
    # The text has as many letters as the bytes need, and its spare bits are zero.
    if spare > 4 or _BASE32.fullmatch(text) is None:
        return None
    number = int(text.translate(_AS_DIGITS) or "0", 32)
    if number & ((1 << spare) - 1):
        return None
    return (number >> spare).to_bytes(size, "big")


def from_multibase(text: str) -> bytes | None:
    """Decode a text whose first letter names its base: base16, base32, base36 or base58btc.

    Returns None if it is in another base or malformed. All but base58btc may be in upper case.
    """
    if not text.isascii():
        return None
    base, digits = text[:1].lower(), text[1:]
    if base == "z" and text.startswith("z"):
        return _from_digits(digits, _BASE58)
    digits = digits.lower()
    if base == "b":
        return from_base32(digits)
    if base == "k":
        return _from_digits(digits, _BASE36)
    if base == "f" and _BASE16.fullmatch(digits):
        return bytes.fromhex(digits)
    return None


def _from_digits(text: str, alphabet: str) -> bytes | None:
    """Decode a number in the digits of an alphabet to bytes; each leading zero digit is a zero byte."""
    if len(text) > _SLOW_TEXT_MAX or not set(text) <= set(alphabet):
        return None
    number = 0
    for letter in text:
        number = number * len(alphabet) + alphabet.index(letter)
    zeros = len(text) - len(text.lstrip(alphabet[0]))
    return bytes(zeros) + number.to_bytes((number.bit_length() + 7) // 8, "big")


def base58(data: bytes) -> str:
    """Encode bytes in Bitcoin's base58. Takes time quadratic in the size, so use it for short bytes only."""
    number = int.from_bytes(data, "big")
    letters = []
    while number:
        number, digit = divmod(number, 58)
        letters.append(_BASE58[digit])
    zeros = len(data) - len(data.lstrip(b"\0"))
    return "1" * zeros + "".join(reversed(letters))


def from_base58(text: str, size: int) -> bytes | None:
    """Decode base58 to exactly `size` bytes. Returns None if the text is not their canonical encoding."""
    number = 0
    # A byte takes more than one letter and less than two; a leading zero takes exactly one.
    if not size <= len(text) <= 2 * size:
        return None
    for letter in text:
        digit = _BASE58_DIGITS.get(letter)
        if digit is None:
            return None
        number = number * 58 + digit
    if number.bit_length() > 8 * size:
        return None
    data = number.to_bytes(size, "big")
    return data if base58(data) == text else None
