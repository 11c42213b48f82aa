"""The session in docs/p2panda-quic.md: who says which bytes, in the order of the document.

S  830001…   bytes in hex, in groups of any length    ; a comment
   more bytes of the same message
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

Speaker = Literal["C", "S"]
DOCUMENT = Path(__file__).parents[2] / "docs" / "p2panda-quic.md"
_COLUMNS = 100


def said() -> Iterator[tuple[Speaker, bytes]]:
    """The messages of the document."""
    block = DOCUMENT.read_text().split("```session\n")[1].split("```")[0]
    speaker: Speaker | None = None
    digits = ""
    for line in block.splitlines():
        text = line.partition(";")[0]
        first = text[:1]
        if first == "C" or first == "S":
            if speaker is not None:
                yield speaker, bytes.fromhex(digits)
            speaker, digits, text = ("C" if first == "C" else "S"), "", text[1:]
        digits += text
    assert speaker is not None, "the document has a session"
    yield speaker, bytes.fromhex(digits)


def written(speaker: Speaker, message: bytes, comment: str) -> str:
    """A message as the document shows it."""
    digits = message.hex()
    lines = [f"{speaker}  ; {comment}"]
    lines += [f"   {digits[start : start + _COLUMNS]}" for start in range(0, len(digits), _COLUMNS)]
    return "\n".join(lines)
