"""A payload that is being received: decompressed, stored in parts, and verified when it is complete."""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.bamboo_p2p.errors import DataInvalid
from culm_models.bamboo_p2p.link import ConnectionState
from culm_models.bamboo_p2p.requests.request import PayloadTrace, Request
from culm_models.lzfoo import Decompressor, LzfooLength


class IncomingPayload:
    """The payload at the incoming cursor. If `size` is None, its metadata is unknown and it is discarded."""

    __slots__ = (
        "_decompresses",
        "_differs",
        "_is_unwanted",
        "_link",
        "_trace",
        "is_of_the_other_alone",
        "left",
        "length",
        "request",
        "seq_num",
        "size",
    )

    def __init__(self, link: ConnectionState, request: Request, seq_num: int, size: int | None) -> None:
        self._link = link
        self.request = request
        self.seq_num = seq_num
        self.size = size
        self.left = 0
        """Bytes of the current message that have not arrived."""
        self.length = 0
        self._decompresses = self._differs = False
        # A payload that was dropped here and arrives in a request of the other end is verified, but not kept.
        self._is_unwanted = not request.mine and link.store.is_dropped(request.log, seq_num)
        # Needed if the payload may arrive from elsewhere meanwhile and this stream may end with an apology.
        is_traced = link.receives_greedily or self._is_unwanted
        self._trace = PayloadTrace(link.flavour, seq_num) if is_traced else None
        starts_inside = request.incoming.offset > 0
        if starts_inside and self._trace is not None:
            self._trace.add(request.incoming.offset, b"")
        self.is_of_the_other_alone = not starts_inside and not link.store.unverified(request.log, seq_num)
        """Whether all bytes were received in this request, so that the other end is responsible for them."""

    @property
    def is_compressed(self) -> bool:
        """Whether the current message is compressed with LZFoo."""
        return self._decompresses

    def begin(self, length: int, compressed_length: int | None) -> None:
        """Begin a message with `length` bytes of the payload; `compressed_length` is None if they are raw."""
        self.length = length
        self._decompresses = compressed_length is not None
        self.left = length if compressed_length is None else compressed_length

    def raw(self, chunk: bytes) -> bytes:
        """Take a chunk of an uncompressed message. Returns it."""
        self.left -= len(chunk)
        return chunk

    def decompress(self, decompressor: Decompressor, chunk: bytes) -> Iterator[bytes]:
        """Take a chunk of a compressed message. Yields the decompressed bytes. Raises `LzfooError`."""
        self.left -= len(chunk)
        for plain in decompressor.feed(chunk, self.length):
            self.length -= len(plain)
            yield plain
        if not self.left:
            decompressor.end()
            if self.length:
                raise LzfooLength(f"{self.length} bytes less come out than were announced")

    def taken(self) -> None:
        """Mark the current message as complete."""
        self.left = self.length = 0

    def skipped(self) -> None:
        """Record that the other end skipped bytes that this end has sent."""
        self.is_of_the_other_alone = False

    def keep(self, offset: int, data: bytes) -> None:
        """Store received bytes at `offset`. Raises `DataInvalid` if they are certainly wrong."""
        request, store = self.request, self._link.store
        if request.is_discarding:
            return
        if self._trace is not None:
            self._trace.add(offset, data)
        if self._is_unwanted:
            return
        if not store.has_payload(request.log, self.seq_num):
            self._link.keep_unverified(request, self.seq_num, offset, data)
        elif self._trace is None and store.read_payload(request.log, self.seq_num, offset, len(data)) != data:
            if not request.proposal.payload_only:
                raise DataInvalid(f"the payload of {self.seq_num} is not the one that its entry names")
            # In a payload-only request they may be of another branch, which is no violation (R54).
            self._differs = True

    def verify(self) -> bool:
        """Verify the complete payload. Returns whether it is valid; a valid payload is stored as held.

        If the stream is traced, the received bytes are also verified by themselves, independently of bytes
        from elsewhere: the other end decides about an apology in the same way.
        """
        request, store = self.request, self._link.store
        if self._differs:
            return False
        if not self._is_unwanted and not store.has_payload(request.log, self.seq_num):
            if self.size is not None and not store.unverified(request.log, self.seq_num).covers(0, self.size):
                # Parts were discarded here meanwhile for lack of capacity, which is not the other end's
                # fault.
                self.is_of_the_other_alone = False
            if not self._link.verify_payload(request, self.seq_num):
                return False
        stored = store.entry(request.log, self.seq_num)
        return self._trace is None or stored is None or not self._trace.is_wrong(stored.entry.payload_hash)
