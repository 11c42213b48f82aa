"""Recent messages as they were on the wire, so that those whom others ask for are repeated byte by byte."""

from __future__ import annotations

from collections import OrderedDict


class WireCache:
    """The newest messages that fit into `most_bytes`; none where that is 0."""

    __slots__ = ("_bytes", "_most_bytes", "_wires")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        # Linked, for it is emptied from the front: a plain one would be walked over its holes.
        self._wires: OrderedDict[str, tuple[str, bytes]] = OrderedDict()
        self._bytes = 0

    def __contains__(self, message_id: object) -> bool:
        return message_id in self._wires

    def __len__(self) -> int:
        return len(self._wires)

    def put(self, message_id: str, writer_id: str, wire: bytes) -> None:
        """Keep a message with who wrote it; the oldest ones go for it."""
        if len(wire) > self._most_bytes or message_id in self._wires:
            return
        self._wires[message_id] = (writer_id, wire)
        self._bytes += len(wire)
        while self._bytes > self._most_bytes:
            self._bytes -= len(self._wires.popitem(last=False)[1][1])

    def get(self, message_id: str) -> bytes | None:
        """The message's bytes, or None when they are not kept."""
        found = self._wires.get(message_id)
        return None if found is None else found[1]

    def writer(self, message_id: str) -> str | None:
        """Who wrote a message that is kept, else None."""
        found = self._wires.get(message_id)
        return None if found is None else found[0]
