"""Detection of forks between an entry and the entries that a store holds (reference 1.5).

`culm_models.bamboo.fork_proof` defines when two entries prove a fork; `requests.proposals` validates the
evidence of a cancel.
"""

from __future__ import annotations

from culm_models.bamboo.entry import decode_entry, lipmaa
from culm_models.bamboo.fork_proof import forked_at, is_fork_proof
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.store import BambooStore, ForkProof, HeldEntry


def fork_with_held(log_entry: HeldEntry, store: BambooStore) -> ForkProof | None:
    """Return two entries that prove a fork between a valid entry and the held ones (1.5), or None.

    Links are compared if both entries are held. Of links from later entries, only the backlink is compared.
    """
    entry = log_entry.entry
    log = (entry.public_key, entry.log_id)
    seq_num = entry.seq_num
    stored = store.entry(log, seq_num)
    if stored is not None:
        is_proof = is_fork_proof(stored.entry, stored.hash, entry, log_entry.hash)
        return (stored.entry_bytes, log_entry.entry_bytes) if is_proof else None
    before = store.entry(log, seq_num - 1)
    if before is not None and entry.backlink not in (None, before.hash):
        return before.entry_bytes, log_entry.entry_bytes
    if entry.skiplink is not None:
        target = store.entry(log, lipmaa(seq_num))
        if target is not None and entry.skiplink != target.hash:
            return target.entry_bytes, log_entry.entry_bytes
    after = store.entry(log, seq_num + 1)
    if after is not None and after.entry.backlink not in (None, log_entry.hash):
        return log_entry.entry_bytes, after.entry_bytes
    end_of_log = store.end_of_log(log)
    if end_of_log is not None and end_of_log < seq_num:
        last = store.entry(log, end_of_log)
        assert last is not None, "an end of a log is a held entry"
        return last.entry_bytes, log_entry.entry_bytes
    highest = store.highest_entry(log)
    if entry.end_of_log and highest > seq_num:
        later = store.entry(log, highest)
        assert later is not None, "the highest entry is held"
        return log_entry.entry_bytes, later.entry_bytes
    return None


def fork_of(store: BambooStore, log: LogKey) -> int | None:
    """Return the sequence number from which on a log is known to be forked, or None."""
    proof = store.fork_proof(log)
    if proof is None:
        return None
    first, second = (decode_entry(entry_bytes, store.flavour) for entry_bytes in proof)
    return forked_at(first, store.flavour.hash(proof[0]), second, store.flavour.hash(proof[1]))
