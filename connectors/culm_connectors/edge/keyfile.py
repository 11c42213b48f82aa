"""A peer's private key on disk: 64 hex digits in a file that only its owner may read."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import ClassVar

from culm_connectors.errors import ConnectorError
from culm_models.keys import KeyPair

KEY_FILE = "private.key"

_WRONG_KEY_HINT = "a key file has 64 hexadecimal digits: restore it from a copy, or choose another --dir"


class KeyFileError(ConnectorError):
    """A key file that is missing, unreadable, readable by others, or malformed."""

    code: ClassVar[str] = "connector.key"


def load_key(folder: Path, *, hint: str | None = None) -> KeyPair:
    """Load the key of a folder; `hint` is shown if there is none.

    Raises `KeyFileError`.
    """
    path = folder / KEY_FILE
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
        private_key = bytes.fromhex(text)
    except FileNotFoundError as error:
        raise KeyFileError(f"{path} does not exist", hint=hint) from error
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path} cannot be read as a key", hint=_WRONG_KEY_HINT) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyFileError(f"{path} is open to other users", hint=f"chmod 600 {path}")
    if len(private_key) != 32:
        raise KeyFileError(
            f"{path} holds {len(private_key)} bytes instead of the 32 of a private key", hint=_WRONG_KEY_HINT
        )
    return KeyPair.from_private_key(private_key)


def make_key(folder: Path, private_key: bytes | None = None) -> KeyPair:
    """Write a new key, random by default; an existing key is never overwritten.

    Raises `KeyFileError` if there is a key already.
    """
    key_pair = KeyPair.from_private_key(private_key or secrets.token_bytes(32))
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / KEY_FILE
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise KeyFileError(f"{path} exists already", hint="a key is never overwritten") from error
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(key_pair.private_key.hex() + "\n")
        file.flush()
        os.fsync(file.fileno())
    return key_pair


def load_or_make_key(folder: Path) -> KeyPair:
    """Load the key of a folder, or make one if there is none."""
    return load_key(folder) if (folder / KEY_FILE).exists() else make_key(folder)
