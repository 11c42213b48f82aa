"""What must hold of stores, whatever happened on the way."""

from collections.abc import Iterable, Mapping, Sequence

from culm_models.bamboo import check_links, decode_entry, hash_bytes
from culm_models.bamboo.log_store import LogKey
from culm_models.errors import CulmError
from culm_models.p2panda.store import LogStore
from culm_models.p2panda.wire.messages import LogHeight
from culm_models.testing.errors import InvariantError


def check_contiguous(store: LogStore, schema_ids: Iterable[str]) -> None:
    """Every log is a chain from its first entry on: no gap, no repeat, every link right."""
    for public_key, log_id, height in store.log_heights(schema_ids):
        pairs = list(store.entries(public_key, log_id, 1, height))
        if len(pairs) != height:
            raise InvariantError(f"log {log_id} of height {height} holds {len(pairs)} entries")
        hashes: dict[int, bytes] = {}
        for seq_num, (entry_bytes, _) in enumerate(pairs, 1):
            entry = decode_entry(entry_bytes)
            if (entry.public_key, entry.log_id, entry.seq_num) != (public_key, log_id, seq_num):
                raise InvariantError(f"entry {seq_num} of log {log_id} stands in the wrong place")
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
    """What is held is what the authors wrote, byte for byte."""
    for public_key, log_id, height in store.log_heights(schema_ids):
        originals = written.get((public_key, log_id))
        if originals is None:
            continue
        if list(store.entries(public_key, log_id, 1, height)) != list(originals[:height]):
            raise InvariantError(f"log {log_id} of {public_key.hex()} differs from what was written")


def differences(
    store: LogStore, schema_ids: Iterable[str], expected: Mapping[LogKey, int]
) -> list[LogHeight]:
    """The logs that a store does not hold at the expected height, with the height that it holds."""
    held = {(public_key, log_id): seq_num for public_key, log_id, seq_num in store.log_heights(schema_ids)}
    return [(*key, held.get(key, 0)) for key, height in expected.items() if held.get(key, 0) != height]
