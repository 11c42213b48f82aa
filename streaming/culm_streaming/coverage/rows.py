"""The packed form of holdings on their way to the state: hundreds of rows in one record per shard.

A log's key is padded to 41 bytes here, so that all have the same size: its last byte is 0 in a YASMF log, 1
in a YAMF log. Hashes are cut to the first 16 bytes after the prefix. (An author who wants two own entries
with the same cut hash has to try 2**64 hashes, and only gains that a proof of the own log is reported as
whole.)
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
"""Runs, with start and end alternating."""


class JoinedRow(NamedTuple):
    """Entries from `start` up to, but excluding, `end` of a log, from `logs`.

    `numbers` and `hashes` (concatenated): entries that later links may name; `payloads`: runs of entries with
    payloads.
    """

    log: bytes
    start: int
    end: int
    numbers: Flat
    hashes: bytes
    payloads: Flat


class FragmentRow(NamedTuple):
    """One entry from `fragments`, its signature checked; an absent link is empty."""

    log: bytes
    seq_num: int
    hash: bytes
    backlink: bytes
    skiplink: bytes
    is_whole: bool
    partition: int
    offset: int


class ClaimRow(NamedTuple):
    """The holdings of a log that a peer claimed."""

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


class PayloadChunkRow(NamedTuple):
    """A received chunk of a payload, which has `total` chunks."""

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
"""(key, value) of a complete record of `rejected`."""


@dataclass(slots=True)
class PayloadRows(PackedRows):
    """Input of one shard's first stage."""

    chunks: list[PayloadChunkRow] = field(default_factory=list)
    wants: list[WantRow] = field(default_factory=list)


@dataclass(slots=True)
class CoverageRows(PackedRows):
    """Input of one shard's second stage."""

    joined: list[JoinedRow] = field(default_factory=list)
    fragments: list[FragmentRow] = field(default_factory=list)
    claims: list[ClaimRow] = field(default_factory=list)
    payloads: list[HeldPayloads] = field(default_factory=list)
    refused: list[Refused] = field(default_factory=list)


def padded_key(log_key: bytes) -> bytes:
    """Return a log's key with its flavour as the last byte, for either flavour."""
    return log_key if len(log_key) == PADDED_KEY_SIZE else log_key + b"\0"


def plain_key(padded: bytes) -> bytes:
    """Return the log's key as in topics."""
    return padded if padded[LOG_KEY_SIZE] else padded[:LOG_KEY_SIZE]


def cut_hash(whole: bytes | None) -> bytes:
    """Return the stored part of a hash of either flavour; empty for None."""
    return b"" if whole is None else whole[_PREFIX_SIZE : _PREFIX_SIZE + CUT_HASH_SIZE]


def flat(runs: Iterable[tuple[int, int]]) -> Flat:
    """Return runs as one flat tuple."""
    return tuple(number for run in runs for number in run)


def range_set(numbers: Iterable[int]) -> RangeSet:
    """Return the set of flat runs."""
    runs = RangeSet()
    ends = iter(numbers)
    for start, end in zip(ends, ends, strict=True):
        runs.add(start, end)
    return runs
