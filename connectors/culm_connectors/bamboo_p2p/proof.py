"""The proof of one entry by its certificate pool alone (Bamboo, "certificate pools")."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models.bamboo.certificate_pool import lower_pool, upper_pool
from culm_models.bamboo.checks import check_signature
from culm_models.bamboo.errors import BambooError
from culm_models.bamboo.fork_proof import links_of
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.forks import fork_of
from culm_models.bamboo_p2p.store import BambooStore, HeldEntry


@dataclass(frozen=True, slots=True)
class Proof:
    """Result of checking an entry by its pool. `wrong`: descriptions of errors, with sequence numbers.

    `pool`: the held elements. `missing`: elements that are not held, up to the checked entry or the highest
    held one. `beyond`: later elements, which may not exist yet and are not required. `forked_at`: the first
    entry at which the log is known to be forked; nothing from there on is proven.
    """

    seq_num: int
    pool: tuple[int, ...]
    missing: tuple[int, ...]
    beyond: tuple[int, ...]
    wrong: tuple[tuple[int, str], ...]
    has_payload: bool
    forked_at: int | None = None

    @property
    def is_proven(self) -> bool:
        """Whether nothing is missing and nothing is wrong."""
        is_forked = self.forked_at is not None and self.forked_at <= self.seq_num
        return not self.missing and not self.wrong and self.seq_num in self.pool and not is_forked


def prove(store: BambooStore, log: LogKey, seq_num: int) -> Proof:
    """Check an entry by its pool: every signature, and every link along both paths."""
    numbers = sorted({*lower_pool(seq_num), *upper_pool(seq_num)})
    highest = store.highest_entry(log)
    entries = {number: entry for number in numbers if (entry := store.entry(log, number)) is not None}
    wrong: list[tuple[int, str]] = []
    for number, entry in entries.items():
        try:
            check_signature(entry.entry_bytes, entry.entry)
        except BambooError as error:
            wrong.append((number, str(error)))
        wrong += [(number, f"its link to {target} names another entry") for target in _broken(entry, entries)]
    missing = [number for number in numbers if number not in entries]
    return Proof(
        seq_num,
        tuple(entries),
        tuple(number for number in missing if number <= max(highest, seq_num)),
        tuple(number for number in missing if number > max(highest, seq_num)),
        tuple(wrong),
        store.has_payload(log, seq_num),
        fork_of(store, log),
    )


def _broken(entry: HeldEntry, entries: dict[int, HeldEntry]) -> list[int]:
    return [
        target
        for target, link in links_of(entry.entry).items()
        if target in entries and entries[target].hash != link
    ]
