"""The peers of a simulation and the logs that they write, signed once for all runs."""

import random
from functools import cache
from typing import Final

from culm_models.keys import KeyPair
from culm_models.lifts import LIFTS
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.settings import PeerSettings
from culm_models.testing.p2panda.logs import LogWriter

SCHEMAS: Final = (
    "schema_definition_v1",
    "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b",
    "event_0020b177ec1bf26dfb3b7010d473e6d44713b29b765b99c6e60ecbfae742de496543",
)
_AUTHORS: Final = 6
_ENTRIES_PER_LOG: Final = 9

# Room for an entry and for the heights of one schema's logs, the liar's among them, but not of all schemas.
_SMALL_MESSAGES: Final = 560


def draw_settings(rng: random.Random, count: int) -> list[PeerSettings]:
    """Settings of so many peers: everything that peers may choose for themselves, and a few things alike."""
    live_everywhere = rng.random() < 0.8
    max_message_bytes = rng.choice((_SMALL_MESSAGES, 1 << 20, 1 << 20))
    return [
        PeerSettings(
            live_mode=live_everywhere or rng.random() < 0.5,
            auto_sync=True,
            compat="spec" if live_everywhere else rng.choice(("spec", "aquadoggo")),
            modes=rng.choice(((0,), (0, 1), (1, 0), (1, 0))),
            announce_offers=rng.random() < 0.8,
            lift=rng.choice(LIFTS).name,
            rule=rng.choice(("even", "upstream")),
            payload_threshold=rng.choice((1, 2, 8)),
            range_division=rng.choice((2, 4)),
            compact_form=rng.random() < 0.5,
            max_message_bytes=max_message_bytes,
            max_outgoing=rng.choice((1, 3, 4_096)),
            max_outgoing_bytes=rng.choice((1, 2_000, 1 << 22)),
            session_timeout_ms=20_000,
            max_backoff_ms=40_000,
            max_sessions_per_peer=rng.choice((2, 4)) if max_message_bytes > _SMALL_MESSAGES else 4,
        )
        for _ in range(count)
    ]


@cache
def written() -> tuple[tuple[CheckedOperation, ...], ...]:
    """Logs for every run, signed once: per author one in each schema, some in another author's document."""
    logs: list[tuple[CheckedOperation, ...]] = []
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
def forked() -> tuple[CheckedOperation, ...]:
    """Both branches of the liar's own logs."""
    found: list[CheckedOperation] = []
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
