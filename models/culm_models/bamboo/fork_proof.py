"""Proof by two entries that a log is forked (Bamboo Point-2-Point of 2020, the only definition)."""

from culm_models.bamboo.entry import Entry, lipmaa


def is_fork_proof(entry: Entry, entry_hash: bytes, other: Entry, other_hash: bytes) -> bool:
    """Whether two validly signed entries prove that their log is forked.

    They do in four cases: they have the same sequence number and different payloads; their links name
    different entries for the same sequence number; a link of one names another entry in place of the other;
    or one follows the other, which ended the log. An end of log alone proves nothing; only an entry after it
    does. Entries of different logs prove nothing.
    """
    if (entry.public_key, entry.log_id) != (other.public_key, other.log_id):
        return False
    if entry.seq_num == other.seq_num and (
        (entry.payload_size, entry.payload_hash) != (other.payload_size, other.payload_hash)
    ):
        return True
    first, second = (entry, other) if entry.seq_num < other.seq_num else (other, entry)
    if first.end_of_log and first.seq_num < second.seq_num:
        return True
    named_by_entry, named_by_other = links_of(entry), links_of(other)
    if any(named_by_other.get(seq_num, link) != link for seq_num, link in named_by_entry.items()):
        return True
    return (
        named_by_entry.get(other.seq_num, other_hash) != other_hash
        or named_by_other.get(entry.seq_num, entry_hash) != entry_hash
    )


def forked_at(entry: Entry, entry_hash: bytes, other: Entry, other_hash: bytes) -> int:
    """Return the first sequence number at which the two entries of a proof show different branches."""
    named_by_entry = {**links_of(entry), entry.seq_num: entry_hash}
    named_by_other = {**links_of(other), other.seq_num: other_hash}
    differing = [
        number for number, name in named_by_entry.items() if named_by_other.get(number, name) != name
    ]
    # If nothing differs, one entry ends the log and the other follows it.
    return min(differing, default=max(entry.seq_num, other.seq_num))


def links_of(entry: Entry) -> dict[int, bytes]:
    """Return the hashes in an entry's links, by the sequence numbers that they name."""
    links = {}
    if entry.backlink is not None:
        links[entry.seq_num - 1] = entry.backlink
    if entry.skiplink is not None:
        links[lipmaa(entry.seq_num)] = entry.skiplink
    return links
