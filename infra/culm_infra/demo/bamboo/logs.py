"""The logs of the demo: one author's entries with payloads that are drawn, and parts of what they say."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Final

from culm_models.bamboo.entry import lipmaa, needs_skiplink, sign_entry, spine_number_from
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.peer import GivenEntry
from culm_models.keys import KeyPair

AUTHOR: Final = KeyPair.generate(b"the author of the logs of the demo of Bamboo")
LONG_LOG: Final[LogKey] = (AUTHOR.public_key, 0)


def author_log(log_id: int) -> LogKey:
    """One of the author's logs."""
    return AUTHOR.public_key, log_id


def reading(number: int) -> bytes:
    """A payload of the long log, as some gauge would write it."""
    level_mm = 2_000 + number * 7_919 % 613
    return b'{"gauge":"upper mill","reading":%d,"level_mm":%d,"battery_mv":%d}' % (
        number,
        level_mm,
        3_300 - number % 97,
    )


def provable(height: int) -> int:
    """The newest entry of a log all of whose pool exists."""
    spine = spine_number_from(height)
    return spine if spine == height else (spine - 1) // 3


def noise(size: int, seed: int) -> bytes:
    """A payload that nothing compresses."""
    return random.Random(seed).randbytes(size)


def signed(log_id: int, payloads: Iterable[bytes]) -> list[GivenEntry]:
    """A log from its first entry on, with its payloads."""
    hashes: dict[int, bytes] = {}
    given = []
    for seq_num, payload in enumerate(payloads, 1):
        entry = sign_entry(
            AUTHOR,
            log_id,
            seq_num,
            payload,
            backlink=hashes.get(seq_num - 1),
            skiplink=hashes[lipmaa(seq_num)] if needs_skiplink(seq_num) else None,
            flavour=YAMF,
        )
        hashes[seq_num] = YAMF.hash(entry)
        given.append(GivenEntry(entry, payload))
    return given


def without_payload(given: GivenEntry, *held: tuple[int, bytes]) -> GivenEntry:
    """The entry alone, or with those unverified parts of its payload."""
    return GivenEntry(given.entry_bytes, None, held)
