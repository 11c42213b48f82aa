"""A connection in memory: two reliable, ordered byte streams, which arrive in pieces and may be cut off."""


class Pipe:
    """One direction: bytes come out as they went in, as few at a time as the reader likes."""

    def __init__(self) -> None:
        self._bytes = bytearray()

    def __len__(self) -> int:
        return len(self._bytes)

    def write(self, data: bytes) -> None:
        """Put bytes in."""
        self._bytes += data

    def read(self, max_bytes: int) -> bytes:
        """Take at most `max_bytes` of those that went in first."""
        taken = bytes(self._bytes[:max_bytes])
        del self._bytes[:max_bytes]
        return taken


class MemoryLink:
    """A link between `dialler` and `listener`; what is under way is lost when it breaks."""

    def __init__(self, dialler: bytes, listener: bytes) -> None:
        assert dialler != listener, "a link has two ends"
        self.dialler = dialler
        self.listener = listener
        self.is_up = False
        self._pipes: dict[bytes, Pipe] = {}

    def connect(self) -> None:
        """Begin anew with empty pipes."""
        self.is_up = True
        self._pipes = {self.dialler: Pipe(), self.listener: Pipe()}

    def cut(self) -> None:
        """Lose the link and everything under way."""
        self.is_up = False
        self._pipes = {}

    @property
    def ends(self) -> tuple[bytes, bytes]:
        """Both ends, the dialler first."""
        return self.dialler, self.listener

    def other_end(self, end: bytes) -> bytes:
        """The end opposite to this one."""
        return self.listener if end == self.dialler else self.dialler

    def towards(self, end: bytes) -> Pipe:
        """The pipe that leads to this end of a link that is up."""
        return self._pipes[end]
