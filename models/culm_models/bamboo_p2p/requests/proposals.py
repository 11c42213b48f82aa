"""Making of own proposals and validation of the other end's (R22 to R25, R30, R31, R35, R36)."""

from __future__ import annotations

from dataclasses import dataclass

from culm_models import keys
from culm_models.bamboo.certificate_pool import MAX_SEQ_NUM, in_lower_pool, lower_pool, shortest_path
from culm_models.bamboo.entry import Entry, decode_entry, lipmaa
from culm_models.bamboo.fork_proof import is_fork_proof, links_of
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.bamboo_p2p.errors import EntryMissing, EvidenceBogus, RangeViolated, SparseOpen
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.settings import Direction
from culm_models.bamboo_p2p.store import BambooStore, ForkProof
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Cancel, CancelCode, Eagerness, Propose


@dataclass(frozen=True, slots=True)
class RequestedRange:
    """The range of a log that a caller wants. Missing fields are derived from what is held.

    Fields as in `Propose`.
    """

    public_key: bytes
    log_id: int
    start: int
    lower: int | None = None
    min_size: int = 0
    max_size: int = MAX_SIZE
    expected_hash: bytes | None = None
    eagerness: Eagerness = Eagerness.ALL
    threshold: int | None = None
    end: int | None = None
    upper: int | None = None
    offset: int | None = None
    payload_only: bool = False
    sparse: bool = False
    mandatory: bool = False
    direction: Direction = Direction.BOTH

    @property
    def log(self) -> LogKey:
        """The log of the range."""
        return self.public_key, self.log_id


RefusedKey = tuple[LogKey, int, int | None, int | None, int | None, int | None, bool, bool]


def refused_key(proposal: Propose) -> RefusedKey:
    """Return the key under which two proposals count as the same for a refusal (3.8)."""
    return (
        (proposal.public_key, proposal.log_id),
        proposal.start,
        proposal.lower,
        proposal.end,
        proposal.upper,
        proposal.offset,
        proposal.payload_only,
        proposal.sparse,
    )


def make_proposal(wanted: RequestedRange, request_id: int, store: BambooStore) -> Propose:
    """Make the proposal for a wanted range. Raises `SparseOpen`, `EntryMissing`, `RangeViolated`."""
    if wanted.sparse and wanted.end is None:
        raise SparseOpen("a sparse range needs an end: learn the log's height by an open notify-only request")
    lower = None if wanted.offset is not None else wanted.lower
    if wanted.offset is None and lower is None and wanted.start >= 1:
        lower = _lowest_missing(store, wanted.log, wanted.start)
    upper = (wanted.end if wanted.upper is None else wanted.upper) if wanted.end is not None else None
    proposal = Propose(
        request_id,
        wanted.public_key,
        wanted.log_id,
        wanted.start,
        lower,
        wanted.min_size,
        wanted.max_size,
        None,
        wanted.eagerness,
        wanted.threshold,
        wanted.end,
        upper,
        wanted.offset,
        wanted.payload_only,
        wanted.sparse,
        wanted.mandatory,
    )
    check_range(proposal)
    if (wanted.offset is not None or wanted.payload_only) and not _holds_metadata(store, proposal):
        raise EntryMissing("the metadata of what is asked for, without it, must be held")
    expected = wanted.expected_hash
    if expected is None:
        if wanted.offset is not None:
            stored = store.entry(wanted.log, wanted.start)
            expected = stored.hash if stored is not None else None
        elif lower is not None and lower != 1:
            expected = _hash_below(store, wanted.log, lower)
        if expected is None and (wanted.offset is not None or lower != 1):
            raise EntryMissing(f"no entry is held below {lower or wanted.start}, so no hash can be expected")
    elif wanted.offset is None and lower == 1:
        expected = None
    return Propose(
        request_id,
        wanted.public_key,
        wanted.log_id,
        wanted.start,
        lower,
        wanted.min_size,
        wanted.max_size,
        expected,
        wanted.eagerness,
        wanted.threshold,
        wanted.end,
        upper,
        wanted.offset,
        wanted.payload_only,
        wanted.sparse,
        wanted.mandatory,
    )


def check_range(proposal: Propose) -> None:
    """Check that the sequence numbers make a range (R31). Raises `RangeViolated`."""
    start, lower, end, upper = proposal.start, proposal.lower, proposal.end, proposal.upper
    if start < 1 or 0 in (lower, end, upper):
        raise RangeViolated("sequence numbers start at 1")
    if end is not None and end < start:
        raise RangeViolated(f"the range ends at {end}, before its start {start}")
    if end is not None and upper is not None and upper < end:
        raise RangeViolated(f"the upper pool is bounded by {upper}, below the end {end}")
    if lower is not None and not in_lower_pool(lower, start):
        raise RangeViolated(f"{lower} is not in the lower certificate pool of {start}")


def objection(proposal: Propose, request_id: int, store: BambooStore) -> Cancel | None:
    """Return the cancel for a proposal that no policy can accept (3.8), or None.

    The reasons are forks, ends of logs and open sparse ranges. Missing entries are checked by `unfit`.
    """
    log = (proposal.public_key, proposal.log_id)
    proof = store.fork_proof(log)
    if proof is not None:
        return Cancel(request_id, CancelCode.FORKED, entries=proof)
    end_of_log = store.end_of_log(log)
    if end_of_log is not None and end_of_log < proposal.start:
        return Cancel(request_id, CancelCode.END_OF_LOG, seq_num=end_of_log)
    if proposal.sparse and proposal.end is None:
        return Cancel(request_id, CancelCode.REFUSED)
    return None


def unfit(proposal: Propose, request_id: int, store: BambooStore, direction: Direction) -> Cancel | None:
    """Return the cancel for a proposal that does not fit what is held, or None (R35, R36, hash: R23)."""
    log = (proposal.public_key, proposal.log_id)
    refused = Cancel(request_id, CancelCode.REFUSED)
    if (proposal.offset is not None or proposal.payload_only) and not _holds_metadata(store, proposal):
        return refused
    if (
        proposal.lower is not None
        and direction is not Direction.PUSH
        and any(store.entry(log, number) is None for number in lower_pool(proposal.lower)[1:])
    ):
        return refused
    if proposal.offset is not None:
        start = store.entry(log, proposal.start)
        assert start is not None, "checked above"
        if proposal.offset > start.entry.payload_size:
            return refused
        if start.hash != proposal.expected_hash:
            return Cancel(request_id, CancelCode.HASH_MISMATCH, entries=(start.entry_bytes,))
        return None
    return other_branch(proposal, request_id, store)


def other_branch(proposal: Propose, request_id: int, store: BambooStore) -> Cancel | None:
    """Return the cancel for a proposal whose expected hash is of another branch, or None (R23)."""
    log = (proposal.public_key, proposal.log_id)
    if proposal.lower is None or proposal.lower == 1:
        return None
    target = store.entry(log, lipmaa(proposal.lower))
    if target is not None:
        if target.hash == proposal.expected_hash:
            return None
        return Cancel(request_id, CancelCode.HASH_MISMATCH, entries=(target.entry_bytes,))
    named = _hash_below(store, log, proposal.lower)
    if named is None or named == proposal.expected_hash:
        return None
    return Cancel(request_id, CancelCode.REFUSED)


def hash_mismatch_target(proposal: Propose) -> int | None:
    """Return the sequence number of the entry whose hash a proposal expects, or None (R23)."""
    if proposal.offset is not None:
        return proposal.start
    return lipmaa(proposal.lower) if proposal.lower is not None and proposal.lower > 1 else None


def _lowest_missing(store: BambooStore, log: LogKey, start: int) -> int:
    """Return the lowest element of the start's lower pool that is not held, else the start."""
    for number in reversed(lower_pool(start)):
        if store.entry(log, number) is None:
            return number
    return start


def _hash_below(store: BambooStore, log: LogKey, lower: int) -> bytes | None:
    """Return the hash of the next element of the lower pool below `lower`, from it or from the link to it."""
    target = lipmaa(lower)
    stored = store.entry(log, target)
    if stored is not None:
        return stored.hash
    above = store.entry(log, lower)
    return links_of(above.entry).get(target) if above is not None else None


def _holds_metadata(store: BambooStore, proposal: Propose) -> bool:
    """Whether the required metadata is held: of the start, or, if payload-only, of the whole range (R35)."""
    log = (proposal.public_key, proposal.log_id)
    if not proposal.payload_only or proposal.end is None:
        return store.entry(log, proposal.start) is not None
    if proposal.sparse:
        path = shortest_path(proposal.start, proposal.end)
        return all(store.entry(log, number) is not None for number in path)
    return proposal.end <= MAX_SEQ_NUM and store.end_of_held_entries(log, proposal.start) > proposal.end


def judge_evidence(request: Request, message: Cancel, store: BambooStore) -> ForkProof | None:
    """Validate the evidence of a cancel. Returns the proof if it proves a fork. Raises `EvidenceBogus`."""
    if message.code is CancelCode.END_OF_LOG:
        if message.seq_num is None or not 1 <= message.seq_num < request.proposal.start:
            raise EvidenceBogus(f"no entry {message.seq_num} ends the log before the start", request.log)
    elif message.code is CancelCode.HASH_MISMATCH:
        return _judge_mismatch(request, message, store)
    elif message.code is CancelCode.FORKED:
        first, second = (
            _signed(request, message, entry_bytes, store.flavour) for entry_bytes in message.entries
        )
        hashes = [store.flavour.hash(entry_bytes) for entry_bytes in message.entries]
        if not is_fork_proof(first, hashes[0], second, hashes[1]):
            raise EvidenceBogus("the two entries prove no fork", request.log, message.entries)
        return message.entries[0], message.entries[1]
    return None


def _judge_mismatch(request: Request, message: Cancel, store: BambooStore) -> ForkProof | None:
    """Validate a mismatch of the expected hash.

    Returns a proof of a fork if the held entry differs, else None. The entry must be the one whose hash was
    expected, and have another hash. Raises `EvidenceBogus`.
    """
    (entry_bytes,) = message.entries
    entry = _signed(request, message, entry_bytes, store.flavour)
    entry_hash = store.flavour.hash(entry_bytes)
    expected = request.proposal.expected_hash
    if (
        not request.mine
        or expected is None
        or entry.seq_num != hash_mismatch_target(request.proposal)
        or entry_hash == expected
    ):
        what = "the entry does not show that the expected hash is another one"
        raise EvidenceBogus(what, request.log, message.entries)
    # If the entry itself is not held, the hash came from a link of the entry at the lower bound.
    for seq_num in (entry.seq_num, request.proposal.lower):
        stored = store.entry(request.log, seq_num) if seq_num is not None else None
        if stored is not None and is_fork_proof(stored.entry, stored.hash, entry, entry_hash):
            return stored.entry_bytes, entry_bytes
    return None


def _signed(request: Request, message: Cancel, entry_bytes: bytes, flavour: HashFlavour) -> Entry:
    entry = decode_entry(entry_bytes, flavour)
    signed = entry_bytes[: -keys.SIGNATURE_SIZE]
    if (entry.public_key, entry.log_id) != request.log or not keys.verify(
        entry.public_key, entry.signature, signed
    ):
        raise EvidenceBogus("an entry is not signed, or of another log", request.log, message.entries)
    return entry
