"""Records the transcripts anew: answers every request line of this folder with the program of today.

    .venv/bin/python -m tests.conform.golden.record [NAME ...]

Writes the files whose answers have changed, or that have requests without an answer, and says for each what
differs. Without names it records all files. How to add requests is said in README.md.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, Final

from culm_models.conform.dispatch import OPERATIONS
from tests.conform.golden.transcript import Conversation, differences, read, transcripts, write

_SHOWN: Final = 20


def main(names: list[str]) -> None:
    """Record the transcripts of these file names, or all."""
    unknown = set(names) - {path.name for path in transcripts()}
    if unknown:
        sys.exit(f"there is no transcript {min(unknown)}")
    conversations: list[Conversation] = []
    for path in transcripts():
        if names and path.name not in names:
            continue
        changed = list(differences(path))
        recorded = [conversation.answered() for conversation in read(path)]
        conversations += recorded
        if write(path, recorded):
            print("\n".join(changed[:_SHOWN]))
            print(f"{path.name}: {len(changed)} answers differed\n")
    lines = sum(len(conversation.exchanges) for conversation in conversations)
    print(
        f"{len(conversations)} conversations, {lines} requests, "
        f"{len(operations(conversations))} of {len(OPERATIONS)} operations, "
        f"{len(codes(conversations))} error codes"
    )


def operations(conversations: Iterable[Conversation]) -> Counter[str]:
    """How many requests of each operation have succeeded."""
    return Counter(
        json.loads(exchange.request)["do"]
        for conversation in conversations
        for exchange in conversation.exchanges
        if exchange.answer is not None and "ok" in json.loads(exchange.answer)
    )


def codes(conversations: Iterable[Conversation]) -> Counter[str]:
    """How often each error code is in the answers: of a request, of an event, or of a refused node."""
    return Counter(
        code
        for conversation in conversations
        for exchange in conversation.exchanges
        if exchange.answer is not None
        for code in _codes(json.loads(exchange.answer))
    )


def _codes(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _codes(item)
    elif isinstance(value, dict):
        for name, item in value.items():
            if name in ("code", "dropped") and isinstance(item, str):
                yield item
            elif name == "refused" and isinstance(item, list):
                yield from (code for _, code in item)
            else:
                yield from _codes(item)


if __name__ == "__main__":
    main(sys.argv[1:])
