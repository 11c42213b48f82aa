"""One signed log, made once, of which the ends of a simulation hold different parts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from culm_models.bamboo.entry import lipmaa, needs_skiplink, sign_entry
from culm_models.bamboo.hashes import YASMF, HashFlavour
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


_SAID_OFTEN = b"what many payloads have in common, so that a window finds it again; "


def _payload(seq_num: int) -> bytes:
    """0 to some hundred bytes; of every fourth entry some of what others have, too."""
    own = b"%d-" % seq_num * (seq_num * 7 % 23)
    return own + _SAID_OFTEN * (seq_num % 5) + own if seq_num % 4 == 3 else own


@cache
def the_log(flavour: HashFlavour = YASMF, *, forked_at: int = LENGTH + 1) -> tuple[LoggedEntry, ...]:
    """Entries 1 to `LENGTH`; from `forked_at` on another branch than that of who does not fork."""
    hashes: dict[int, bytes] = {}
    entries = []
    for seq_num in range(1, LENGTH + 1):
        payload = _payload(seq_num) + (b"!" if seq_num >= forked_at else b"")
        entry = sign_entry(
            _AUTHOR,
            LOG[1],
            seq_num,
            payload,
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
            flavour=flavour,
        )
        hashes[seq_num] = flavour.hash(entry)
        entries.append(LoggedEntry(seq_num, entry, payload))
    return tuple(entries)
