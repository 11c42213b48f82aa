"""Transcripts of `culm conform`: their text, and the answers of the program of today to their requests."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from culm_models.conform.dispatch import Conformance

FOLDER: Final = Path(__file__).parent
BIG_INTS_AS_TEXT: Final = "--big-ints-as-text"
_MASK: Final = "*"
_PACKED: Final = ".xz"
# Characters that a report shows before and after the first difference.
_BEFORE, _AFTER = 60, 160


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request line with the number of its line in the file, and its answer if it has been recorded."""

    number: int
    request: str
    answer: str | None


@dataclass(slots=True)
class Conversation:
    """Exchanges with one program, which starts without any machine."""

    comments: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    exchanges: list[Exchange] = field(default_factory=list)

    def answered(self) -> Conversation:
        """The conversation with the answers of the program of today."""
        program = Conformance(big_integers_as_text=BIG_INTS_AS_TEXT in self.options)
        answers = (masked(program.answer_line(exchange.request)) for exchange in self.exchanges)
        exchanges = [
            replace(exchange, answer=answer) for exchange, answer in zip(self.exchanges, answers, strict=True)
        ]
        return Conversation(self.comments, self.options, exchanges)


def masked(answer: str) -> str:
    """An answer whose error messages are masked: codes are stable, messages are not.

    A message is the member `message` of an object that has a `code` as well. All else stays byte for byte.
    """
    value = json.loads(answer)
    if json.dumps(value, separators=(",", ":")) != answer:
        raise ValueError(f"an answer is not spelled as json.dumps spells it: {answer[:200]}")
    return json.dumps(_without_messages(value), separators=(",", ":"))


def _without_messages(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_messages(item) for item in value]
    if not isinstance(value, dict):
        return value
    is_error = isinstance(value.get("code"), str) and isinstance(value.get("message"), str)
    return {
        name: _MASK if is_error and name == "message" and item else _without_messages(item)
        for name, item in value.items()
    }


def transcripts() -> list[Path]:
    """The files of all transcripts."""
    return sorted([*FOLDER.glob("*.txt"), *FOLDER.glob("*.txt.xz")])


def read(path: Path) -> list[Conversation]:
    """The conversations of a file. Raises ValueError: a line is neither of the forms of the README."""
    data = path.read_bytes()
    return parse((lzma.decompress(data) if path.suffix == _PACKED else data).decode())


def write(path: Path, conversations: list[Conversation]) -> bool:
    """Write a file unless it has this text already. Returns whether it was written."""
    if path.exists() and read(path) == conversations:
        return False
    data = text_of(conversations).encode()
    path.write_bytes(lzma.compress(data, preset=9 | lzma.PRESET_EXTREME) if path.suffix == _PACKED else data)
    return True


def parse(text: str) -> list[Conversation]:
    """The conversations of a text; an empty line ends each."""
    conversations = [Conversation()]
    for number, line in enumerate(text.split("\n"), start=1):
        at = conversations[-1]
        match line[:2]:
            case "":
                if at != Conversation():
                    conversations.append(Conversation())
            case "# ":
                at.comments.append(line[2:])
            case "% ":
                at.options.append(line[2:])
            case "> ":
                at.exchanges.append(Exchange(number, line[2:], None))
            case "< " if at.exchanges and at.exchanges[-1].answer is None:
                at.exchanges[-1] = replace(at.exchanges[-1], answer=line[2:])
            case _:
                raise ValueError(f"line {number} is not a line of a transcript: {line[:100]!r}")
    return [conversation for conversation in conversations if conversation != Conversation()]


def text_of(conversations: list[Conversation]) -> str:
    """The text of conversations, as `parse` reads it."""
    return "\n".join("".join(f"{line}\n" for line in _lines(conversation)) for conversation in conversations)


def _lines(conversation: Conversation) -> Iterator[str]:
    yield from (f"# {comment}" for comment in conversation.comments)
    yield from (f"% {option}" for option in conversation.options)
    for exchange in conversation.exchanges:
        yield f"> {exchange.request}"
        if exchange.answer is not None:
            yield f"< {exchange.answer}"


def differences(path: Path) -> Iterator[str]:
    """Each request of a file whose answer of today is another one than the recorded answer, with both."""
    for conversation in read(path):
        for was, now in zip(conversation.exchanges, conversation.answered().exchanges, strict=True):
            if was.answer != now.answer:
                yield "\n".join(
                    [
                        f"{path.name}:{was.number}: {' '.join(conversation.comments)}",
                        f"  request  {_shortened(was.request, 0)}",
                        *_beside(was.answer or "", now.answer or ""),
                    ]
                )


def _beside(expected: str, got: str) -> list[str]:
    """Two answers around the first character that differs."""
    pairs = enumerate(zip(expected, got, strict=False))
    at = next((n for n, (a, b) in pairs if a != b), min(len(expected), len(got)))
    return [
        f"  expected {_shortened(expected, at)}",
        f"  got      {_shortened(got, at)}",
        f"           {' ' * (min(at, _BEFORE) + (3 if at > _BEFORE else 0))}^ character {at}",
    ]


def _shortened(text: str, at: int) -> str:
    start = max(at - _BEFORE, 0)
    return ("..." if start else "") + text[start : at + _AFTER] + ("..." if at + _AFTER < len(text) else "")
