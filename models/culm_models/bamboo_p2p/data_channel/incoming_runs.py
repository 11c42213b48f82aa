"""Batches of complete consecutive entries, whose signatures are verified together.

Most of a transfer alternates between metadata and its payload. The part that is in the buffer already is
rebuilt here, verified with all threads of the driver, and stored in one step. Everything unusual is left to
`incoming_pieces`, which processes single messages with the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from culm_models import varu64
from culm_models.bamboo.entry import assemble_entry, lipmaa, needs_skiplink
from culm_models.bamboo_p2p.events import EntryVerified, PayloadVerified
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.requests.request import LatestPiece, Request
from culm_models.bamboo_p2p.settings import COMPRESSED_BYTES_MAX, COMPRESSED_SLACK_BYTES
from culm_models.bamboo_p2p.store import HeldEntry, VerifiedEntry
from culm_models.frozen import unfrozen
from culm_models.keys import SIGNATURE_SIZE

_RUN_BYTES: Final = 524_288
"""Bytes processed at once: as many as a driver reads at a time, so that no complete entry is left over."""
_PLAIN_BYTES: Final = 1024 * 1024
"""Maximum total size of the payloads decompressed from these bytes."""
_METADATA: Final = 0x80
"""First byte of metadata that does not end a log."""
_RAW: Final = 8
_COMPRESSED: Final = 9

_UnfrozenHeldEntry = unfrozen(HeldEntry)
_UnfrozenEntryVerified = unfrozen(EntryVerified)
_UnfrozenPayloadVerified = unfrozen(PayloadVerified)

Decompress = Callable[[bytes, int], bytes]
"""Decompresses bytes to the given length. Raises the `BambooP2pError` that ends the connection."""


@dataclass(slots=True)
class _Whole:
    """A received entry, and its payload, raw or compressed, if it is complete."""

    log_entry: HeldEntry
    signed: bytes
    end: int
    """Offset of the end of the metadata."""
    payload: bytes | None = None
    compressed: bytes | None = None
    payload_end: int = 0


@dataclass(frozen=True, slots=True)
class TakenRun:
    """Number of bytes and messages taken. `left_over` is a payload that does not match its entry."""

    length: int
    messages: int
    left_over: bytes | None = None


_NOTHING: Final = TakenRun(0, 0)


class IncomingRuns:
    """Takes runs of complete entries for the requests of a connection."""

    def __init__(self, link: ConnectionState, decompress: Decompress) -> None:
        self._link = link
        self._decompress = decompress

    def take(self, request: Request, buffer: bytearray, at: int) -> TakenRun:
        """Take the valid run that begins at `at` with the metadata at the incoming cursor."""
        if at >= len(buffer) or buffer[at] != _METADATA or not self._is_plain(request):
            return _NOTHING
        with memoryview(buffer) as view:
            data = bytes(view[at : at + _RUN_BYTES])
        entries = self._read(request, data)
        if not entries:
            return _NOTHING
        validity = self._link.verify_signatures(request.log[0], [whole.signed for whole in entries])
        taken: list[VerifiedEntry] = []
        length = messages = 0
        left_over: bytes | None = None
        try:
            for whole, is_valid in zip(entries, validity, strict=True):
                if not is_valid:
                    break
                taken.append((whole.log_entry, None))
                length, messages = whole.end, messages + 1
                payload = whole.payload
                if whole.compressed is not None:
                    payload = self._decompress(whole.compressed, whole.log_entry.entry.payload_size)
                    length, messages = whole.payload_end, messages + 1
                    if self._link.flavour.hash(payload) != whole.log_entry.entry.payload_hash:
                        left_over = payload
                        break
                elif payload is not None:
                    length, messages = whole.payload_end, messages + 1
                if payload is None:
                    break
                taken[-1] = (whole.log_entry, payload)
        finally:
            # Entries before bytes that end the connection are kept.
            if taken:
                self._keep(request, taken)
        return TakenRun(length, messages, left_over)

    def _is_plain(self, request: Request) -> bool:
        latest = request.latest
        return (
            not request.is_discarding
            and not request.is_position_lost
            and request.other_ended_by is None
            and (latest is None or (latest.is_complete and latest.is_valid))
            and request.own.admits_metadata
            and self._link.store.end_of_log(request.log) is None
        )

    def _read(self, request: Request, data: bytes) -> list[_Whole]:
        """Read entries from `data` up to the first that is incomplete or not of the common form."""
        store, flavour, log = self._link.store, self._link.flavour, request.log
        run = request.sequence.entries_from(request.incoming.piece)
        if run is None:
            return []
        first, last = run
        before = store.entry(log, first - 1) if first > 1 else None
        if (first > 1 and before is None) or (
            needs_skiplink(first) and not request.sequence.follows_its_backlink(first)
        ):
            return []
        if store.highest_entry(log) >= first:
            # A held entry, and the entry before it, must be compared with the received ones.
            last = min(last, next(store.held_between(log, first, last + 1), last + 2) - 2)
        public_key, log_id = log
        begin = b"\x00" + public_key + varu64.encode(log_id)
        hash_size, prefix, hash_of = flavour.size, flavour.prefix, flavour.hash
        rest_size = hash_size + SIGNATURE_SIZE
        admits = request.own.admits_payload
        hashes: dict[int, bytes] = {}
        backlink = before.hash if before is not None else None
        entries: list[_Whole] = []
        at, seq_num, available, plain_left = 0, first, len(data), _PLAIN_BYTES
        while seq_num <= last and at < available and data[at] == _METADATA:
            try:
                payload_size, size = varu64.decode(data, at + 1)
            except varu64.VarU64Error:
                break
            hash_at = at + 1 + size
            end = hash_at + rest_size
            if end > available or not data.startswith(prefix, hash_at):
                break
            skiplink = None
            target = lipmaa(seq_num)
            if target < seq_num - 1:
                skiplink = hashes.get(target) or self._hash(request, target)
                if skiplink is None or skiplink == backlink:
                    break
            signature_at = end - SIGNATURE_SIZE
            signature = data[signature_at:end]
            parts = (
                begin,
                varu64.encode(seq_num),
                skiplink or b"",
                backlink or b"",
                data[at + 1 : signature_at],
            )
            unsigned = b"".join(parts)
            entry_bytes = unsigned + signature
            entry = assemble_entry(
                public_key,
                log_id,
                seq_num,
                skiplink,
                backlink,
                payload_size,
                data[hash_at:signature_at],
                signature,
            )
            backlink = hashes[seq_num] = hash_of(entry_bytes)
            log_entry: HeldEntry = _UnfrozenHeldEntry(entry, entry_bytes, backlink)
            log_entry.__class__ = HeldEntry
            whole = _Whole(log_entry, signature + unsigned, end)
            entries.append(whole)
            if not admits(payload_size) or not self._read_payload(data, whole):
                break
            if whole.compressed is not None:
                plain_left -= entry.payload_size
                if plain_left < 0:
                    whole.compressed = None
                    break
            at = whole.payload_end
            seq_num += 1
        return entries

    def _hash(self, request: Request, target: int) -> bytes | None:
        stored = self._link.store.entry(request.log, target)
        return stored.hash if stored is not None else None

    def _read_payload(self, data: bytes, whole: _Whole) -> bool:
        """Read the payload if it follows completely in one message. Returns whether it does.

        A raw payload must match its hash.
        """
        at, entry = whole.end, whole.log_entry.entry
        kind = data[at] if at < len(data) else -1
        if kind not in (_RAW, _COMPRESSED):
            return False
        try:
            length, size = varu64.decode(data, at + 1, canonical=False)
            at += 1 + size
            if length != entry.payload_size:
                return False
            if kind == _RAW:
                payload = data[at : at + length]
                if len(payload) < length or self._link.flavour.hash(payload) != entry.payload_hash:
                    return False
                whole.payload, whole.payload_end = payload, at + length
                return True
            compressed_length, size = varu64.decode(data, at, canonical=False)
        except varu64.VarU64TruncatedError:
            return False
        at += size
        compressed = data[at : at + compressed_length]
        if (
            len(compressed) < compressed_length
            or not self._link.receive_window
            or length > COMPRESSED_BYTES_MAX
            or compressed_length > 2 * length + COMPRESSED_SLACK_BYTES
        ):
            return False
        whole.compressed, whole.payload_end = compressed, at + compressed_length
        return True

    def _keep(self, request: Request, taken: list[VerifiedEntry]) -> None:
        """Store the entries and advance the cursor over them."""
        link, log, id_ = self._link, request.log, request.id
        link.store.put_verified(log, taken)
        first, count = taken[0][0].entry.seq_num, len(taken)
        last, last_payload = taken[-1]
        report = link.report
        for seq_num in range(first, first + count):
            entry_event = _UnfrozenEntryVerified(id_, log, seq_num)
            entry_event.__class__ = EntryVerified
            report(entry_event)
            if seq_num < first + count - 1 or last_payload is not None:
                payload_event = _UnfrozenPayloadVerified(id_, log, seq_num)
                payload_event.__class__ = PayloadVerified
                report(payload_event)
        link.changed += [(log, seq_num) for seq_num in range(first, first + count)]
        link.other_holds_metadata(log, first, first + count)
        index = request.incoming.piece
        following = index + 2 * count - (last_payload is None)
        request.other_passed.pass_to(following)
        request.latest = LatestPiece(following - 1, is_complete=True, is_valid=True)
        request.incoming.move(following)
        request.incoming_size = last.entry.payload_size if last_payload is None else None
        link.wake(request)
