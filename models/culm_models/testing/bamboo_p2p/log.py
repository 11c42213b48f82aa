"""One signed log, made once, of which the ends of a simulation hold different parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from culm_models.bamboo.entry import sign_entry
from culm_models.bamboo.hashes import YASMF
from culm_models.bamboo.lipmaa import lipmaa, needs_skiplink
from culm_models.bamboo.log_store import LogKey
from culm_models.keys import KeyPair

LENGTH = 40
_AUTHOR = KeyPair.generate(b"author of the simulation")
LOG: LogKey = (_AUTHOR.public_key, 7)


@dataclass(frozen=True, slots=True)
class LoggedEntry:
    """An entry of the log, with its payload."""

    seq_num: int
    entry_bytes: bytes
    payload: bytes


@cache
def the_log() -> tuple[LoggedEntry, ...]:
    """Entries 1 to `LENGTH`; payloads have 0 to some hundred bytes."""
    hashes: dict[int, bytes] = {}
    entries = []
    for seq_num in range(1, LENGTH + 1):
        payload = b"%d-" % seq_num * (seq_num * 7 % 23)
        entry = sign_entry(
            _AUTHOR,
            LOG[1],
            seq_num,
            payload,
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
        )
        hashes[seq_num] = YASMF.hash(entry)
        entries.append(LoggedEntry(seq_num, entry, payload))
    return tuple(entries)
