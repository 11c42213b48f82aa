"""Values as JSON has them."""

from __future__ import annotations

import math
from typing import Any

from culm_models.chotki.ids import Id
from culm_topics.chotki.values.kinds import Pairs, Unreadable, Value
from culm_topics.chotki.values.scalars import WRITE, Scalar, Term


def plain_value(value: Value | None) -> Any:
    """The value as JSON has it: IDs and terms as text, an E as a list, an M as an object by text of keys.

    An M with keys of one text is a list of pairs, in which a key that is an ID or a term is `{"R": …}` or
    `{"T": …}`. A text that is not UTF-8 is `{"bytes": …}`, in hex.
    """
    match value:
        case Id():
            return str(value)
        case Term():
            return plain_value(value.text)
        case str():
            return value if _is_utf8(value) else {"bytes": WRITE["S"](value).hex()}
        case float() if not math.isfinite(value):
            return str(value)
        case Pairs():
            texts = {str(key) for key in value}
            if len(texts) == len(value) and all(map(_is_utf8, texts)):
                return {str(key): plain_value(one) for key, one in value.items()}
            return [[_plain_key(key), plain_value(one)] for key, one in value.items()]
        case dict():
            return {str(key): plain_value(one) for key, one in value.items()}
        case tuple():
            return [plain_value(one) for one in value]
        case Unreadable():
            return {"unreadable": value.raw.hex()}
        case _:
            return value


def _plain_key(key: Scalar) -> Any:
    letter = "R" if isinstance(key, Id) else "T" if isinstance(key, Term) else None
    return plain_value(key) if letter is None else {letter: plain_value(key)}


def _is_utf8(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)
