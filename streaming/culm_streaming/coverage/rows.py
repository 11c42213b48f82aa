"""The packed form of what is held on its way to the state: rows by the hundred in one record a shard.

A log's key is padded to 41 bytes here, so that all have one size: its last byte is 0 in a YASMF log, 1 in a
YAMF log. Hashes are cut to their first 16 bytes behind the prefix. (Who looks for two own entries that share
them has 2**64 hashes to try, and gains that a proof of the own log is called whole.)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from culm_models.bamboo.range_set import RangeSet
from culm_streaming.stateful.packed_rows import PackedRows
from culm_topics.records import LOG_KEY_SIZE, YAMF_LOG_KEY_SIZE

PADDED_KEY_SIZE: Final = YAMF_LOG_KEY_SIZE
CUT_HASH_SIZE: Final = 16
_PREFIX_SIZE = 2

Flat = tuple[int, ...]
"""Runs, start and end by turns."""


class JoinedRow(NamedTuple):
    """Entries `start` up to, without, `end` of a log, out of `logs`.

    `numbers` and `hashes` (end to end): what later links may name; `payloads`: runs of those with payloads.
    """

    log: bytes
    start: int
    end: int
    numbers: Flat
    hashes: bytes
    payloads: Flat


class FragmentRow(NamedTuple):
    """One entry out of `fragments`, its signature checked; a link that it has not is empty."""

    log: bytes
    seq_num: int
    hash: bytes
    backlink: bytes
    skiplink: bytes
    is_whole: bool
    partition: int
    offset: int


class ClaimRow(NamedTuple):
    """What a peer said that it holds of a log."""

    peer_id: bytes
    log: bytes
    entries: Flat
    payloads: Flat
    dropped: Flat
    partition: int
    offset: int


class HeldPayloads(NamedTuple):
    """Entries of a log whose payloads are whole in `payloads`."""

    log: bytes
    numbers: Flat


class ChunkRow(NamedTuple):
    """A chunk of a payload that has come; `total` chunks are all of it."""

    payload: bytes
    number: int
    total: int
    partition: int
    offset: int


class WantRow(NamedTuple):
    """An entry whose payload is not in its record."""

    payload: bytes
    log: bytes
    seq_num: int


Refused = tuple[bytes, bytes]
"""(key, value) of a ready-made record of `rejected`."""


@dataclass(slots=True)
class PayloadRows(PackedRows):
    """What one shard's first stage is told."""

    chunks: list[ChunkRow] = field(default_factory=list)
    wants: list[WantRow] = field(default_factory=list)


@dataclass(slots=True)
class CoverageRows(PackedRows):
    """What one shard's second stage is told."""

    joined: list[JoinedRow] = field(default_factory=list)
    fragments: list[FragmentRow] = field(default_factory=list)
    claims: list[ClaimRow] = field(default_factory=list)
    payloads: list[HeldPayloads] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def padded_key(log_key: bytes) -> bytes:
    """A log's key with its flavour as a last byte, whatever the flavour."""
    return log_key if len(log_key) == PADDED_KEY_SIZE else log_key + b"\0"


def plain_key(padded: bytes) -> bytes:
    """The log's key as it stands in topics."""
    return padded if padded[LOG_KEY_SIZE] else padded[:LOG_KEY_SIZE]


def cut_hash(whole: bytes | None) -> bytes:
    """What is kept of a hash of either flavour; empty for none."""
    return b"" if whole is None else whole[_PREFIX_SIZE : _PREFIX_SIZE + CUT_HASH_SIZE]


def flat(runs: Iterable[tuple[int, int]]) -> Flat:
    """Runs as one flat tuple."""
    return tuple(number for run in runs for number in run)


def range_set(numbers: Iterable[int]) -> RangeSet:
    """The set of flat runs."""
    runs = RangeSet()
    ends = iter(numbers)
    for start, end in zip(ends, ends, strict=True):
        runs.add(start, end)
    return runs
