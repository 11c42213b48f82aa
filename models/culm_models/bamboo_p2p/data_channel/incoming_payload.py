"""One payload on its way in: framed, decompressed, kept as parts, and verified when it is whole."""

from __future__ import annotations

from collections.abc import Iterator

from culm_models.bamboo_p2p.errors import DataInvalid
from culm_models.bamboo_p2p.link import Link
from culm_models.bamboo_p2p.requests.request import PayloadTrace, Request
from culm_models.lzfoo import Decompressor, LzfooLength


class IncomingPayload:
    """The payload at the incoming cursor. `size` None: its metadata is unknown, so it is thrown away."""

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

    def __init__(self, link: Link, request: Request, seq_num: int, size: int | None) -> None:
        self._link = link
        self.request = request
        self.seq_num = seq_num
        self.size = size
        self.left = 0
        """Bytes of the message at hand that have not come."""
        self.length = 0
        self._decompresses = self._differs = False
        # What was dropped here, and is brought by somebody who was not asked for it, is judged and let go of.
        self._is_unwanted = not request.mine and link.store.is_dropped(request.log, seq_num)
        # Needed where the payload may come from elsewhere meanwhile, and this stream be apologised for.
        is_traced = link.receives_greedily or self._is_unwanted
        self._trace = PayloadTrace(link.flavour, seq_num) if is_traced else None
        starts_inside = request.incoming.offset > 0
        if starts_inside and self._trace is not None:
            self._trace.add(request.incoming.offset, b"")
        self.is_of_the_other_alone = not starts_inside and not link.store.unverified(request.log, seq_num)
        """Whether every byte came from the other end, in this request: then it answers for them."""

    @property
    def is_compressed(self) -> bool:
        """Whether the message at hand is LZFoo."""
        return self._decompresses

    def begin(self, length: int, compressed_length: int | None) -> None:
        """A message with so many bytes of the payload begins."""
        self.length = length
        self._decompresses = compressed_length is not None
        self.left = length if compressed_length is None else compressed_length

    def raw(self, chunk: bytes) -> bytes:
        """Bytes as they are."""
        self.left -= len(chunk)
        return chunk

    def decompress(self, decompressor: Decompressor, chunk: bytes) -> Iterator[bytes]:
        """The bytes that compressed ones stand for, in pieces. Raises `LzfooError`."""
        self.left -= len(chunk)
        for plain in decompressor.feed(chunk, self.length):
            self.length -= len(plain)
            yield plain
        if not self.left:
            decompressor.end()
            if self.length:
                raise LzfooLength(f"{self.length} bytes less come out than were announced")

    def taken(self) -> None:
        """All bytes of the message were taken."""
        self.left = self.length = 0

    def skipped(self) -> None:
        """Bytes were passed over that this end has sent."""
        self.is_of_the_other_alone = False

    def keep(self, offset: int, data: bytes) -> None:
        """Bytes came, to stand at `offset`. Raises `DataInvalid` if they are wrong for sure."""
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
            # Payloads alone may be those of another branch, which is nobody's fault (R54).
            self._differs = True

    def verify(self) -> bool:
        """Whether the payload, now that all of it came, is the right one; it is held then.

        What the other end alone has sent is judged by itself, too: it judges and apologises in the same way,
        whatever is held here from elsewhere.
        """
        request, store = self.request, self._link.store
        if self._differs:
            return False
        if not self._is_unwanted and not store.has_payload(request.log, self.seq_num):
            if self.size is not None and not store.unverified(request.log, self.seq_num).covers(0, self.size):
                # Some of it was forgotten here meanwhile, for lack of room: no fault of the other end.
                self.is_of_the_other_alone = False
            if not self._link.verify_payload(request, self.seq_num):
                return False
        held = store.entry(request.log, self.seq_num)
        return self._trace is None or held is None or not self._trace.is_wrong(held.entry.payload_hash)
