"""The peers of a simulation and the logs that they write, signed once for all runs."""

import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from culm_models.bamboo import check_links, decode_entry, hash_bytes
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.keys import KeyPair
from culm_models.lifts import LIFTS
from culm_models.p2panda.operations.operation import CheckedOperation
from culm_models.p2panda.settings import PeerSettings
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import LogHeight
from culm_models.testing.errors import InvariantError
from culm_models.testing.p2panda.logs import LogWriter

SCHEMAS: Final = (
    "schema_definition_v1",
    "venue_0020c65567ae37efea293e34a9c7d13f8f2bf23dbdc3b5c7b9ab46293111c48fc78b",
    "event_0020b177ec1bf26dfb3b7010d473e6d44713b29b765b99c6e60ecbfae742de496543",
)
_AUTHORS: Final = 6
_ENTRIES_PER_LOG: Final = 9

# Capacity for an entry and for the heights of one schema's logs, including the liar's, but not of all
# schemas.
_SMALL_MESSAGES: Final = 560


def draw_settings(rng: random.Random, count: int) -> list[PeerSettings]:
    """Draw settings of `count` peers: individual where peers may differ, common where they must agree."""
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
    """Return logs for every run, signed once: for each author, one in each schema.

    Some of them write to another author's document.
    """
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
    """Return both branches of the liar's own logs."""
    branches: list[CheckedOperation] = []
    for number, schema in enumerate(SCHEMAS):
        key_pair = KeyPair.generate(b"the liar of the simulations, some 32 bytes long")
        writer = LogWriter(key_pair, number, schema)
        for _ in range(5):
            writer.append()
        branch = writer.fork(3)
        for _ in range(3):
            branch.append({"branch": True})
        branches += writer.entries + branch.entries
    return tuple(branches)


def check_contiguous(store: LogStore, schema_ids: Iterable[str]) -> None:
    """Check that every log is a chain from its first entry on: no gap, no repeat, every link correct."""
    for public_key, log_id, height in store.log_heights(schema_ids):
        pairs = list(store.entries(public_key, log_id, 1, height))
        if len(pairs) != height:
            raise InvariantError(f"log {log_id} of height {height} holds {len(pairs)} entries")
        hashes: dict[int, bytes] = {}
        for seq_num, (entry_bytes, _) in enumerate(pairs, 1):
            entry = decode_entry(entry_bytes)
            if (entry.public_key, entry.log_id, entry.seq_num) != (public_key, log_id, seq_num):
                raise InvariantError(f"entry {seq_num} of log {log_id} is in the wrong place")
            try:
                check_links(entry, hash_at=hashes.get)
            except CulmError as error:
                raise InvariantError(f"log {log_id} is no chain: {error}") from error
            hashes[seq_num] = hash_bytes(entry_bytes)
            if store.entry_hash(public_key, log_id, seq_num) != hashes[seq_num]:
                raise InvariantError(f"the store names entry {seq_num} of log {log_id} by a wrong hash")


def check_as_written(
    store: LogStore, schema_ids: Iterable[str], written: Mapping[LogKey, Sequence[tuple[bytes, bytes]]]
) -> None:
    """Check that the held entries are those that the authors wrote, byte for byte."""
    for public_key, log_id, height in store.log_heights(schema_ids):
        originals = written.get((public_key, log_id))
        if originals is None:
            continue
        if list(store.entries(public_key, log_id, 1, height)) != list(originals[:height]):
            raise InvariantError(f"log {log_id} of {public_key.hex()} differs from what was written")


def differences(
    store: LogStore, schema_ids: Iterable[str], expected: Mapping[LogKey, int]
) -> list[LogHeight]:
    """Return the logs that a store does not hold at the expected height, with the height that it holds."""
    own_heights = {
        (public_key, log_id): seq_num for public_key, log_id, seq_num in store.log_heights(schema_ids)
    }
    return [
        (*key, own_heights.get(key, 0))
        for key, height in expected.items()
        if own_heights.get(key, 0) != height
    ]
