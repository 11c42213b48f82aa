"""Whether an entry continues its log (Bamboo, "entry verification", second part)."""

from collections.abc import Callable

from culm_models.bamboo import errors
from culm_models.bamboo.entry import Entry
from culm_models.bamboo.lipmaa import lipmaa


def check_links(
    entry: Entry, *, hash_at: Callable[[int], bytes | None], end_of_log_at: int | None = None
) -> None:
    """Raise unless both links of `entry` name the entries that are held.

    `hash_at` gives the hash of the held entry of the same log with that sequence number, or None;
    `end_of_log_at` is the sequence number of the entry that ended the log, if one did. The unknown-link
    errors mean "too early", the others "never". A fork is the caller's to see: it alone knows the hash
    of this entry and of the one held in its place.
    """
    if end_of_log_at is not None and entry.seq_num > end_of_log_at:
        raise errors.AfterEndOfLogError(f"entry {entry.seq_num} follows the end of its log, {end_of_log_at}")
    if entry.seq_num == 1:
        return
    held = hash_at(entry.seq_num - 1)
    if held is None:
        raise errors.BacklinkUnknownError(f"entry {entry.seq_num - 1} is not held")
    if held != entry.backlink:
        raise errors.BacklinkMismatchError(f"the backlink of entry {entry.seq_num} names another entry")
    if entry.skiplink is None:
        return
    target = lipmaa(entry.seq_num)
    held = hash_at(target)
    if held is None:
        raise errors.SkiplinkUnknownError(f"entry {target} is not held")
    if held != entry.skiplink:
        raise errors.SkiplinkMismatchError(
            f"the skiplink of entry {entry.seq_num} does not name the entry {target} that is held"
        )
