"""Merges of Chotki's values per second, by type: many fields at once, as in the job, and one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from bench.harness import BenchSettings, Ratio, best_rate, interleaved_rates
from culm_models.chotki.rdx import merge, write_vector
from culm_models.chotki.rdx.batch import merge_fields
from culm_models.chotki.rdx.column import BytesColumn
from culm_models.chotki.rdx.first import write_element, write_first, write_stamp
from culm_models.chotki.tlv import record
from culm_models.chotki.zip import pack_float, pack_int

_GOAL_PER_S = 1_000_000
_GOAL_TYPES = frozenset("INV")
_SOURCES = range(1, 5)
_VECTOR_SOURCES = range(1, 9)
_ELEMENTS = 10


def run(settings: BenchSettings) -> list[Ratio]:
    """Merge a stored value with one operand per field; the operand is like that of a packet or a diff."""
    fields, repeats = (2_000, 1) if settings.quick else (100_000, 3)
    ratios = []
    for letter, (stored, received) in _CASES.items():
        source = random.Random(letter)
        values = [make(source) for _ in range(fields) for make in (stored, received)]
        column, first = BytesColumn.of(values), np.arange(0, 2 * fields, 2)

        def many(letter: str = letter, column: BytesColumn = column, first: np.ndarray = first) -> int:
            return len(merge_fields(letter, column, first))

        def alone(letter: str = letter, values: list[bytes] = values) -> int:
            count = min(len(values), 20_000)
            for at in range(0, count, 2):
                merge(letter, values[at : at + 2])
            return count // 2

        if letter in _GOAL_TYPES:
            rate, limit, name, goal = best_rate(many, repeats=repeats), float(_GOAL_PER_S), "a million", 1.0
            details = {"one_by_one": best_rate(alone, repeats=1)}
        else:
            rate, limit = interleaved_rates([many, alone], repeats=repeats)
            name, goal, details = "one by one", None, {}
        details["fields"] = fields
        ratios.append(
            Ratio(
                "chotki-merges", f"merges of {letter}", rate, limit, "merges/s", name, goal, details=details
            )
        )
    return ratios


Make = Callable[[random.Random], bytes]


def _first(value: Callable[[random.Random], bytes]) -> tuple[Make, Make]:
    def make(source: random.Random) -> bytes:
        return write_first(2 * source.randrange(50), source.choice(_SOURCES), value(source))

    return make, make


def _natural(source: random.Random) -> bytes:
    return b"".join(record("T", write_stamp(source.randrange(1 << 16), src)) for src in _SOURCES)


def _counter(source: random.Random) -> bytes:
    parts = (
        write_element(ord("I"), 2 * source.randrange(99), src, pack_int(source.randrange(1 << 12)))
        for src in _SOURCES
    )
    return b"".join(parts)


def _set(source: random.Random) -> bytes:
    chosen = sorted(pack_int(number) for number in source.sample(range(100), _ELEMENTS))
    return b"".join(write_element(ord("I"), 0, source.choice(_SOURCES), value) for value in chosen)


def _map(source: random.Random) -> bytes:
    parts = []
    for number in range(_ELEMENTS):
        raw, src = 2 * source.randrange(9), source.choice(_SOURCES)
        parts.append(write_element(ord("S"), raw, src, b"key %d" % number))
        parts.append(write_element(ord("I"), raw, src, pack_int(source.randrange(1 << 12))))
    return b"".join(parts)


def _vector(source: random.Random) -> bytes:
    return write_vector({src: source.randrange(1 << 30) for src in _VECTOR_SOURCES})


def _entry(source: random.Random) -> bytes:
    return write_vector({source.choice(_VECTOR_SOURCES): source.randrange(1 << 30)})


_CASES: dict[str, tuple[Make, Make]] = {
    "F": _first(lambda source: pack_float(source.random())),
    "I": _first(lambda source: pack_int(source.randrange(1 << 20))),
    "S": _first(lambda source: b"text %d" % source.randrange(1 << 20)),
    "N": (_natural, _natural),
    "Z": (_counter, _counter),
    "E": (_set, _set),
    "M": (_map, _map),
    "V": (_vector, _entry),
}
