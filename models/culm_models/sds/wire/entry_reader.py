"""History entries out of messages, most of which repeat those of the message before.

Each message names the end of its sender's log, so it mostly says again what the last one said, a few entries
further on: that part is compared as bytes and not read. Other entries are found by their bytes.
"""

from typing import Final

from culm_models.sds.wire.entry_codec import read_entry
from culm_models.sds.wire.errors import EntryCountError, TruncatedMessageError
from culm_models.sds.wire.field_tags import TAGS
from culm_models.sds.wire.messages import HistoryEntry, Profile
from culm_models.sds.wire.profiles import PROFILES
from culm_models.sds.wire.protobuf import read_length

# Longer entries and runs are read anew each time, so that what is remembered is bounded in bytes too.
_REMEMBERED_ENTRY_BYTES: Final = 512
_REMEMBERED_RUN_BYTES: Final = 1 << 17
# So many entries of the last run may have left at its beginning.
_STEPS_MOST: Final = 8
# Entries that are remembered: so many, or those of so many runs as long as the last one.
_ENTRIES_LEAST: Final = 64
_RUNS: Final = 4


class EntryReader:
    """Reads the entries of one profile; remembers the last run and at most `remembered` entries."""

    __slots__ = (
        "_entries",
        "_known",
        "_limit",
        "_max_entries",
        "_profile",
        "_remembered",
        "_run",
        "_strict",
        "_tag",
    )

    def __init__(self, profile: Profile, max_entries: int, remembered: int) -> None:
        self._profile: Profile = profile
        self._strict = PROFILES[profile].strict
        self._max_entries = max_entries
        self._remembered = remembered
        self._limit = min(remembered, _ENTRIES_LEAST)
        self._known: dict[bytes, HistoryEntry] = {}
        # One byte in every profile; a tag spelled with more does not begin a run.
        self._tag = TAGS[profile]["causal_history"]
        self._run = b""
        self._entries: list[HistoryEntry] = []

    def read_one(self, body: bytes, into: list[HistoryEntry]) -> None:
        """Read one entry without its tag and length. Raises MessageError."""
        if len(into) >= self._max_entries:
            raise EntryCountError(f"more than {self._max_entries} history entries")
        into.append(self._known.get(body) or self._read(body))

    def read_run(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        """Read the entries of the causal history that follow each other from a position on.

        Gives the position behind them. Raises MessageError.
        """
        begin = position
        fresh = not into
        if fresh:
            position = self._repeated(data, position, into)
        if position < len(data) and data[position] == self._tag:
            position = self._read_entries(data, position, into)
        if fresh and self._remembered and position - begin <= _REMEMBERED_RUN_BYTES:
            self._run = data[begin:position]
            self._entries = into.copy()
            self._limit = min(self._remembered, max(_ENTRIES_LEAST, _RUNS * len(into)))
        return position

    def _repeated(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        """Take over what this run repeats of the last one, without its first few entries."""
        run = self._run
        start = 0
        for steps in range(min(_STEPS_MOST, len(self._entries))):
            _, end = read_length(run, start + 1)
            if data.startswith(run[start:end], position):
                repeated = run[start:]
                if data.startswith(repeated, position):
                    into += self._entries[steps:]
                    return position + len(repeated)
                return position
            start = end
        return position

    def _read_entries(self, data: bytes, position: int, into: list[HistoryEntry]) -> int:
        # The inner loop of all reading: lengths of one and two bytes are read in place.
        size = len(data)
        history_tag = self._tag
        known = self._known.get
        append = into.append
        try:
            for _ in range(self._max_entries - len(into)):
                length = data[position + 1]
                if length < 0x80:
                    start = position + 2
                    end = start + length
                elif 0 < (high := data[position + 2]) < 0x80:
                    start = position + 3
                    end = start + (high << 7 | length & 0x7F)
                else:
                    start, end = read_length(data, position + 1, self._strict)
                if end > size:
                    raise TruncatedMessageError("a history entry is longer than what follows")
                body = data[start:end]
                append(known(body) or self._read(body))
                position = end
                if position == size or data[position] != history_tag:
                    return position
        except IndexError:
            raise TruncatedMessageError("the message ends inside the length of a history entry") from None
        raise EntryCountError(f"more than {self._max_entries} history entries")

    def _read(self, body: bytes) -> HistoryEntry:
        entry = read_entry(body, self._profile)
        if self._remembered and len(body) <= _REMEMBERED_ENTRY_BYTES:
            if len(self._known) >= self._limit:
                self._known.clear()
            self._known[body] = entry
        return entry
