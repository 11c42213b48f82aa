"""Numbers within messages: any spelling of a VarU64 is taken, but for those that are hashed (R5)."""

from culm_models import varu64
from culm_models.bamboo_p2p.errors import Malformed


class Incomplete(Exception):
    """The bytes end before the message does; more may come. Never leaves the codecs."""


class Reader:
    """Reads one message from the front of bytes: each call takes what it gives.

    Raises `Incomplete` where the bytes end. With `strict`, every number has to have its shortest form.
    """

    __slots__ = ("_data", "_strict", "offset")

    def __init__(
        self, data: bytes | bytearray | memoryview, offset: int = 0, *, strict: bool = False
    ) -> None:
        self._data = data
        self._strict = strict
        self.offset = offset

    def byte(self) -> int:
        """One byte."""
        if self.offset >= len(self._data):
            raise Incomplete
        self.offset += 1
        return self._data[self.offset - 1]

    def number(self, *, canonical: bool = False) -> int:
        """A VarU64; with `canonical`, in its shortest form."""
        try:
            value, size = varu64.decode(self._data, self.offset, canonical=canonical or self._strict)
        except varu64.VarU64TruncatedError:
            raise Incomplete from None
        except varu64.VarU64Error as error:
            raise Malformed(str(error)) from None
        self.offset += size
        return value

    def take(self, size: int) -> bytes:
        """So many bytes; `size` is never a number that the other end chose."""
        end = self.offset + size
        if end > len(self._data):
            raise Incomplete
        taken = bytes(self._data[self.offset : end])
        self.offset = end
        return taken

    def peek(self, size: int) -> bytes:
        """The next bytes, at most so many, which are not taken."""
        return bytes(self._data[self.offset : self.offset + size])
