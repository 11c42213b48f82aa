"""Checks of the CBOR items of messages as they are received.

Every check returns its argument with its type, or raises the `MessageError` of the rule that it breaks;
`name` names the item in that error.
"""

from typing import Any, Final

from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.errors import ItemCountError, ItemKindError, ItemRangeError, PublicKeyError

MAX_U64: Final = 2**64 - 1
HEX_KEY_SIZE: Final = 2 * PUBLIC_KEY_SIZE


def count(items: list[Any], expected: int, name: str) -> None:
    """Raise `ItemCountError` unless there are as many items as expected."""
    if len(items) != expected:
        raise ItemCountError(f"{name} has {expected} items, not {len(items)}")


def u64(value: Any, name: str, lowest: int = 0) -> int:
    """Return an unsigned 64-bit number. Raises `ItemKindError` and `ItemRangeError`."""
    # `type` and not `isinstance`: True does not count as 1 here.
    if type(value) is not int:
        raise ItemKindError(f"{name} is a number, not {type(value).__name__}")
    if not lowest <= value <= MAX_U64:
        raise ItemRangeError(f"{name} is from {lowest} to 2**64-1, not {value}")
    return value


def flag(value: Any, name: str) -> bool:
    """Return a boolean. Raises `ItemKindError`."""
    if type(value) is not bool:
        raise ItemKindError(f"{name} is true or false, not {type(value).__name__}")
    return value


def octets(value: Any, name: str) -> bytes:
    """Return a byte string. Raises `ItemKindError`."""
    if type(value) is not bytes:
        raise ItemKindError(f"{name} is a byte string, not {type(value).__name__}")
    return value


def array(value: Any, size: int, name: str) -> list[Any]:
    """Return an array of `size` items. Raises `ItemKindError` and `ItemCountError`."""
    if type(value) is not list:
        raise ItemKindError(f"{name} is an array, not {type(value).__name__}")
    count(value, size, name)
    return value


def key_from_bytes(value: Any) -> bytes:
    """Return a public key that is encoded as 32 bytes. Raises `ItemKindError` and `PublicKeyError`."""
    if type(value) is not bytes:
        raise ItemKindError(f"a public key is a byte string here, not {type(value).__name__}")
    if len(value) != PUBLIC_KEY_SIZE:
        raise PublicKeyError(f"a public key has {PUBLIC_KEY_SIZE} bytes, not {len(value)}")
    return value


def key_from_hex(value: Any) -> bytes:
    """Return a public key in hex digits of either case. Raises `ItemKindError` and `PublicKeyError`."""
    if type(value) is not str:
        raise ItemKindError(f"a public key is text here, not {type(value).__name__}")
    try:
        # `fromhex` alone would also skip white space.
        public_key = bytes.fromhex(value) if len(value) == HEX_KEY_SIZE else b""
    except ValueError:
        public_key = b""
    if len(public_key) != PUBLIC_KEY_SIZE:
        raise PublicKeyError(f"a public key is {HEX_KEY_SIZE} hex digits")
    return public_key
