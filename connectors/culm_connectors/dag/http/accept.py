"""Parses `Accept` headers (RFC 9110, 12.5.1): media ranges with their parameters and qualities."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

_MEMBER: Final = re.compile(r'(?:[^,"]|"(?:[^"\\]|\\.)*"?)+')
_PARAMETER: Final = re.compile(r'(?:[^;"]|"(?:[^"\\]|\\.)*"?)+')
_KIND: Final = re.compile(r"[!#$%&'*+.^_`|~0-9a-z-]+/[!#$%&'*+.^_`|~0-9a-z-]+")
_QUALITY: Final = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True)
class MediaRange:
    """One member of `Accept`. Type and names of parameters are in lower case."""

    kind: str
    """`type/subtype`, either of which may be `*`."""
    parameters: dict[str, str]
    quality: float
    """From 0, not acceptable, to 1."""


def parse_accept(headers: Iterable[str]) -> list[MediaRange]:
    """Return the members of all `Accept` headers, in their order; malformed members are ignored."""
    members = [member for text in headers for member in _MEMBER.findall(text)]
    return [media_range for media_range in map(_media_range, members) if media_range is not None]


def preferred(ranges: Sequence[MediaRange], offers: Sequence[str]) -> str:
    """Return the offered type of the highest quality; of several, the one named most exactly or first."""
    return max(offers, key=lambda offer: _quality_of(ranges, offer))


def _quality_of(ranges: Sequence[MediaRange], offer: str) -> tuple[float, int]:
    """Return quality and exactness of the most exact range that includes a type.

    A type that no range includes comes before one that is refused exactly.
    """
    levels = ("*/*", f"{offer.partition('/')[0]}/*", offer)
    exactness, quality = max(
        (
            (levels.index(media_range.kind), media_range.quality)
            for media_range in ranges
            if media_range.kind in levels
        ),
        default=(-1, 0.0),
    )
    return quality, exactness if quality else -exactness


def _media_range(text: str) -> MediaRange | None:
    kind, *rest = (part.strip() for part in _PARAMETER.findall(text))
    kind = kind.lower()
    if _KIND.fullmatch(kind) is None:
        return None
    parameters: dict[str, str] = {}
    for part in rest:
        name, _, value = part.partition("=")
        value = value.strip()
        if len(value) > 1 and value[0] == value[-1] == '"':
            value = _ESCAPED.sub(r"\1", value[1:-1])
        parameters.setdefault(name.strip().lower(), value)
    quality = parameters.pop("q", "1")
    return MediaRange(kind, parameters, float(quality)) if _QUALITY.fullmatch(quality) else None
