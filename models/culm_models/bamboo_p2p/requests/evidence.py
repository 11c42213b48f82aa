"""What comes with the cancels 133, 134 and 135, judged, and what it proves (R23 to R25)."""

from __future__ import annotations

from culm_models import keys
from culm_models.bamboo.entry import Entry, decode_entry
from culm_models.bamboo.fork_proof import is_fork_proof
from culm_models.bamboo.hashes import HashFlavour
from culm_models.bamboo_p2p.errors import EvidenceBogus
from culm_models.bamboo_p2p.requests.proposals import hash_mismatch_target
from culm_models.bamboo_p2p.requests.request import Request
from culm_models.bamboo_p2p.store import BambooStore, ForkProof
from culm_models.bamboo_p2p.wire.messages import Cancel, CancelCode


def judge_evidence(request: Request, message: Cancel, store: BambooStore) -> ForkProof | None:
    """What a cancel proves of the log, if it proves that it is forked. Raises `EvidenceBogus`."""
    if message.code is CancelCode.END_OF_LOG:
        if message.seq_num is None or not 1 <= message.seq_num < request.proposal.start:
            raise EvidenceBogus(f"no entry {message.seq_num} ends the log before the start", request.log)
    elif message.code is CancelCode.HASH_MISMATCH:
        return _judge_mismatch(request, message, store)
    elif message.code is CancelCode.FORKED:
        one, other = (
            _signed(request, message, entry_bytes, store.flavour) for entry_bytes in message.entries
        )
        hashes = [store.flavour.hash(entry_bytes) for entry_bytes in message.entries]
        if not is_fork_proof(one, hashes[0], other, hashes[1]):
            raise EvidenceBogus("the two entries prove no fork", request.log, message.entries)
        return message.entries[0], message.entries[1]
    return None


def _judge_mismatch(request: Request, message: Cancel, store: BambooStore) -> ForkProof | None:
    """The entry must be the one whose hash was expected, and have another; beside our own it is a proof."""
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
    # Where the entry itself is not held, the hash came out of a link of the one at the lower bound.
    for seq_num in (entry.seq_num, request.proposal.lower):
        held = store.entry(request.log, seq_num) if seq_num is not None else None
        if held is not None and is_fork_proof(held.entry, held.hash, entry, entry_hash):
            return held.entry_bytes, entry_bytes
    return None


def _signed(request: Request, message: Cancel, entry_bytes: bytes, flavour: HashFlavour) -> Entry:
    entry = decode_entry(entry_bytes, flavour)
    signed = entry_bytes[: -keys.SIGNATURE_SIZE]
    if (entry.public_key, entry.log_id) != request.log or not keys.verify(
        entry.public_key, entry.signature, signed
    ):
        raise EvidenceBogus("an entry is not signed, or of another log", request.log, message.entries)
    return entry
