"""Logs for the checker: made once each, held up to any height."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

from tests.acceptance.wire import Item
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

LogName = tuple[str, int]
"""Public key in hex, log id."""
Holding = dict[LogName, int]
"""The height of every log that a peer holds."""
Pair = tuple[bytes, bytes]
"""Entry and operation."""

HEIGHT = 3
"""How long every log is."""

LOGS: dict[LogName, list[Pair]] = {}
SCHEMA_OF: dict[LogName, str] = {}


@cache
def log(number: int, schema_id: str = SCHEMA) -> LogName:
    """The log of a number: two logs an author, their ids apart."""
    key_pair, log_id = author(f"acceptance {schema_id[0]} {number // 2}"), number % 2 * 5
    name = (key_pair.public_key.hex(), log_id)
    entries = make_log(key_pair, log_id, HEIGHT, schema_id=schema_id)
    LOGS[name] = [(entry.entry_bytes, entry.payload_bytes) for entry in entries]
    SCHEMA_OF[name] = schema_id
    return name


def logs(numbers: Iterable[int], height: int = 1, schema_id: str = SCHEMA) -> Holding:
    """These logs, all of one height."""
    return {log(number, schema_id): height for number in numbers}


def other_logs(numbers: Iterable[int], height: int = 1) -> Holding:
    """Logs of the other schema."""
    return logs(numbers, height, OTHER_SCHEMA)


def union(*holdings: Mapping[LogName, int]) -> Holding:
    """The highest of each log."""
    highest: Holding = {}
    for holding in holdings:
        for name, height in holding.items():
            highest[name] = max(height, highest.get(name, 0))
    return highest


def about(holding: Mapping[LogName, int], schema_ids: Iterable[str]) -> Holding:
    """What of it belongs to these schemas."""
    wanted = set(schema_ids)
    return {name: height for name, height in holding.items() if SCHEMA_OF[name] in wanted}


def items(holding: Mapping[LogName, int]) -> list[Item]:
    """The sync range."""
    return sorted((*name, height) for name, height in holding.items())


def pairs(name: LogName, first: int, last: int) -> list[Pair]:
    """The entries of a log from ``first`` to ``last``."""
    return LOGS[name][first - 1 : last]


def as_json(holding: Mapping[LogName, int]) -> list[dict[str, str]]:
    """The entries of a holding as `p2panda.peer.open` takes them."""
    return [
        {"entry": entry.hex(), "operation": operation.hex()}
        for name, height in holding.items()
        for entry, operation in pairs(name, 1, height)
    ]


def count(holding: Mapping[LogName, int]) -> int:
    """How many entries it is."""
    return sum(holding.values())


def lacking(holding: Mapping[LogName, int], other: Mapping[LogName, int]) -> int:
    """How many entries ``holding`` lacks of those of ``other``."""
    return sum(max(0, height - holding.get(name, 0)) for name, height in other.items())
