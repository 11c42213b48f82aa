"""Arguments that operations on Chotki have in common."""

from __future__ import annotations

from culm_models.chotki.compat import Compat
from culm_models.conform.arguments import ArgumentError, Arguments


def compat_of(arguments: Arguments) -> Compat:
    """``compat``: our own behaviour when it is left out."""
    return arguments.word("compat", {compat.value: compat for compat in Compat}, default=Compat.DEFAULT.value)


def letter_of(arguments: Arguments, name: str = "type") -> str:
    """A letter, A to Z."""
    letter = arguments.text(name)
    if len(letter) != 1 or not letter.isascii() or not letter.isupper():
        raise ArgumentError(f"{name} is not a letter A to Z")
    return letter
