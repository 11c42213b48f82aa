"""The logs that simulations write, signed once for all runs."""

from functools import cache
from typing import Final

from culm_models.keys import KeyPair
from culm_models.p2panda.checks import CheckedEntry
from culm_models.testing.logs import LogWriter

SCHEMAS: Final = (
    "schema_definition_v1",
    "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b",
    "event_0020b177ec1bf26dfb3b7010d473e6d44713b29b765b99c6e60ecbfae742de496543",
)
_AUTHORS: Final = 6
_ENTRIES_PER_LOG: Final = 9


@cache
def written() -> tuple[tuple[CheckedEntry, ...], ...]:
    """Logs for every run, signed once: per author one in each schema, some in another author's document."""
    logs: list[tuple[CheckedEntry, ...]] = []
    for author in range(_AUTHORS):
        key_pair = KeyPair.generate(f"author {author} of the simulations, some 32 bytes".encode())
        for number, schema in enumerate(SCHEMAS):
            writer = LogWriter(key_pair, number, schema)
            joins = author % 2 == 1 and number == 1
            first = writer.append(previous=(logs[-3][0].hash,)) if joins else writer.append()
            assert first.schema_id == schema
            for seq_num in range(2, _ENTRIES_PER_LOG + 1):
                writer.append(end_of_log=seq_num == _ENTRIES_PER_LOG and author == 0)
            logs.append(tuple(writer.entries))
    return tuple(logs)


@cache
def forked() -> tuple[CheckedEntry, ...]:
    """Both branches of the liar's own logs."""
    found: list[CheckedEntry] = []
    for number, schema in enumerate(SCHEMAS):
        key_pair = KeyPair.generate(b"the liar of the simulations, some 32 bytes long")
        writer = LogWriter(key_pair, number, schema)
        for _ in range(5):
            writer.append()
        branch = writer.fork(3)
        for _ in range(3):
            branch.append({"branch": True})
        found += writer.entries + branch.entries
    return tuple(found)
