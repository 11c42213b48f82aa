"""`sds.fetch`: messages that a channel lacks and whose retrieval is due."""

from dataclasses import dataclass

from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_topics.records.shape import (
    FORMAT,
    check_size,
    choice_size,
    dump,
    head_size,
    load_array,
    refuse_item,
    require,
    uint_size,
)
from culm_topics.sds.records.shape import PROFILES, hint_size, id_size, require_hint, require_id

MAX_FETCH_ENTRIES = 1_000
"""Messages in one record; who wants more writes several."""
_NAME = "sds.fetch"


@dataclass(frozen=True, slots=True)
class SdsFetchRecord:
    """Value of `sds.fetch`; its key is the channel's.

    `entries` name the messages, each with the hint and the sender that were told with it. `attempt` counts
    from 1: the first ones ask the store, later ones peers too.
    """

    profile: Profile
    entries: tuple[HistoryEntry, ...]
    attempt: int

    def encode(self) -> bytes:
        """`[1, profile, [[message_id, retrieval_hint, sender_id], ...], attempt]`."""
        require(1 <= len(self.entries) <= MAX_FETCH_ENTRIES, _NAME, f"not 1 to {MAX_FETCH_ENTRIES} entries")
        for entry in self.entries:
            require_id(_NAME, "message_id", entry.message_id)
            require_hint(_NAME, entry.retrieval_hint)
            require_id(_NAME, "sender_id", entry.sender_id, empty=True)
        rows = [[entry.message_id, entry.retrieval_hint, entry.sender_id] for entry in self.entries]
        return dump(FORMAT, self.profile, rows, self.attempt)

    @staticmethod
    def decode(value: bytes | None) -> "SdsFetchRecord":
        """The record in `value`; `RecordError` says what is wrong with it."""
        _, profile, rows, attempt = load_array(value, _NAME, 4)
        size = (
            2
            + choice_size(_NAME, "profile", profile, PROFILES)
            + uint_size(_NAME, "attempt", attempt)
            + _rows_size(rows)
        )
        check_size(value, size, _NAME)
        return SdsFetchRecord(profile, tuple([HistoryEntry(*row) for row in rows]), attempt)


def _rows_size(rows: object) -> int:
    if type(rows) is not list or not 1 <= len(rows) <= MAX_FETCH_ENTRIES:
        refuse_item(_NAME, "entries", rows, f"a list of 1 to {MAX_FETCH_ENTRIES} messages")
    size = head_size(len(rows))
    for row in rows:
        if type(row) is not list or len(row) != 3:
            refuse_item(_NAME, "an entry", row, "[message_id, retrieval_hint, sender_id]")
        message_id, hint, sender_id = row
        size += 1 + id_size(_NAME, "message_id", message_id) + hint_size(_NAME, hint)
        size += 1 if sender_id is None else id_size(_NAME, "sender_id", sender_id, empty=True)
    return size
