"""Reader of messages. Any encoding of a VarU64 is accepted, except for numbers that are hashed (R5)."""

from culm_models import varu64
from culm_models.bamboo_p2p.errors import Malformed


class Incomplete(Exception):
    """The bytes end before the message does; more may arrive. Never raised outside the codecs."""


class Reader:
    """Reads one message from the front of bytes. Each call advances the offset, except `peek`.

    The calls raise `Incomplete` if the bytes end. With `strict`, every number must have its shortest form.
    """

    __slots__ = ("_data", "_strict", "offset")

    def __init__(
        self, data: bytes | bytearray | memoryview, offset: int = 0, *, strict: bool = False
    ) -> None:
        self._data = data
        self._strict = strict
        self.offset = offset

    def byte(self) -> int:
        """Read a byte."""
        if self.offset >= len(self._data):
            raise Incomplete
        self.offset += 1
        return self._data[self.offset - 1]

    def number(self, *, canonical: bool = False) -> int:
        """Read a VarU64; with `canonical`, it must have its shortest form. Raises `Malformed`."""
        try:
            value, size = varu64.decode(self._data, self.offset, canonical=canonical or self._strict)
        except varu64.VarU64TruncatedError:
            raise Incomplete from None
        except varu64.VarU64Error as error:
            raise Malformed(str(error)) from None
        self.offset += size
        return value

    def take(self, size: int) -> bytes:
        """Read `size` bytes. `size` must not be a number chosen by the other end."""
        end = self.offset + size
        if end > len(self._data):
            raise Incomplete
        taken = bytes(self._data[self.offset : end])
        self.offset = end
        return taken

    def peek(self, size: int) -> bytes:
        """Return up to `size` of the next bytes without advancing."""
        return bytes(self._data[self.offset : self.offset + size])
