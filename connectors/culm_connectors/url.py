"""Address of a peer as a URL, for protocols that run over several transports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import urlsplit

Scheme = Literal["tcp", "tls", "quic"]
_SCHEMES: Final[tuple[Scheme, ...]] = ("tcp", "tls", "quic")


@dataclass(frozen=True, slots=True)
class Url:
    """Address of a peer: `tcp://`, `tls://` or `quic://HOST:PORT`."""

    scheme: Scheme
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port."""
        return self.host, self.port

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


def parse_url(text: str) -> Url:
    """Parse an address. Raises `ValueError` if it is malformed."""
    parts = urlsplit(text)
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in _SCHEMES or not parts.hostname or port is None or parts.path not in ("", "/"):
        raise ValueError(
            f"{text!r} is no address: write tcp://HOST:PORT, tls://HOST:PORT or quic://HOST:PORT"
        )
    scheme = next(known for known in _SCHEMES if known == parts.scheme)
    return Url(scheme, parts.hostname, port)
