"""Conversations as data: making them with two naive sides, and playing one side's part to what is tested.

    python -m tests.models.reconciliation.conversations > tests/vectors/rbsr/naive.jsonl

The format is in tests/vectors/rbsr/README.md.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

from culm_models import lifts
from tests.models.reconciliation.naive import Combine, Message, Naive, joined

VECTORS = Path(__file__).parents[2] / "vectors" / "rbsr"
COUNT = 60
SEED = 4


class Side(Protocol):
    """Whoever can be put opposite a recorded side."""

    def start(self) -> list[Message]:
        """The opening."""

    def receive(self, message: Message) -> list[Message]:
        """What is said in answer to one message."""


def untuple(value: Any) -> Any:
    """A message, or a list of them, with its triples as JSON has them."""
    if isinstance(value, dict):
        return {key: untuple(part) for key, part in value.items()}
    return [untuple(part) for part in value] if isinstance(value, list | tuple) else value


def tupled(value: Any) -> Any:
    """The triples of a message as tuples."""
    if isinstance(value, dict):
        return {key: tupled(part) for key, part in value.items()}
    return tuple(value) if isinstance(value, list) else value


def combine_of(monoid: str) -> Combine:
    """Fingerprints by a monoid's name."""
    if monoid == "concat":
        return joined
    lift = lifts.by_name(monoid)

    def combine(items: Any) -> str:
        lanes = (lift.lanes((bytes.fromhex(key), log_id, seq_num)) for key, log_id, seq_num in items)
        return lift.value(lift.total(lanes)).hex()

    return combine


def converse(a: Side, b: Side, max_batches: int = 60) -> list[list[list[Message]]]:
    """Every message: per batch, what was said after each message of the batch before; first the opening."""
    batches = [[a.start()]]
    turn, other = b, a
    while any(batches[-1]) and len(batches) < max_batches:
        batches.append([turn.receive(message) for group in batches[-1] for message in group])
        turn, other = other, turn
    if not any(batches[-1]):
        del batches[-1]
    return batches


def make(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Conversations of random sets."""
    source = random.Random(seed)
    keys = [source.randbytes(32).hex() for _ in range(6)]
    for index in range(count):
        monoid = ("concat", "xor64", "add64")[index % 3]
        draw: Callable[[], Any] = (
            (lambda: "".join(source.choices("abcdefgh", k=source.randint(1, 3))))
            if monoid == "concat"
            else (lambda: (source.choice(keys), source.randint(0, 3), source.choice((0, 1, 2, 10, 255))))
        )
        shared = {draw() for _ in range(source.choice((0, 5, 20, 40)))}
        sides: dict[str, dict[str, Any]] = {}
        for name in "ab":
            kept = source.choice((1.0, 0.9, 0.5))
            items = {item for item in sorted(shared) if source.random() < kept}
            items |= {draw() for _ in range(source.choice((0, 0, 2, 6)))}
            sides[name] = {
                "items": sorted(items),
                "payload_threshold": source.choice((1, 2, 4, 8)),
                "range_division": source.choice((2, 3, 4, 16)),
            }
        naive = {
            name: Naive(side["items"], side["payload_threshold"], side["range_division"], combine_of(monoid))
            for name, side in sides.items()
        }
        batches = converse(naive["a"], naive["b"])
        for name, side in sides.items():
            assert naive[name].done
            side |= {"inserted": naive[name].inserted, "final": naive[name].items}
        yield untuple({"monoid": monoid, **sides, "batches": batches})


def read(name: str) -> list[dict[str, Any]]:
    """The conversations of a vector file."""
    with (VECTORS / name).open() as lines:
        return [json.loads(line) for line in lines]


if __name__ == "__main__":
    for conversation in make(COUNT, SEED):
        sys.stdout.write(json.dumps(conversation, separators=(",", ":")) + "\n")
