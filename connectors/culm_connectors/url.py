"""Addresses of peers and HTTP servers: ``[SCHEME://]HOST:PORT``. The default transport needs no scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

Scheme = Literal["tcp", "tls", "quic", "http"]
_SCHEMES: Final[tuple[Scheme, ...]] = ("tcp", "tls", "quic")
_MAX_PORT: Final = 65_535
_NOT_IN_A_HOST: Final = frozenset("/?#@[]")


@dataclass(frozen=True, slots=True)
class Url:
    """An address: `tcp://`, `tls://`, `quic://` or `http://HOST:PORT`."""

    scheme: Scheme
    host: str
    port: int

    @property
    def address(self) -> tuple[str, int]:
        """Return the host and the port."""
        return self.host, self.port

    def __str__(self) -> str:
        return f"{self.scheme}://{address_text(self.host, self.port)}"


def address_text(host: str, port: int) -> str:
    """Return `HOST:PORT`, or `[IPV6]:PORT`."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_url(text: str, *, schemes: Sequence[Scheme] = _SCHEMES, default: Scheme | None = None) -> Url:
    """Parse an address; without a scheme in it, its scheme is `default`.

    Raises `ValueError`, which lists the schemes, if it is malformed or of a scheme that is not accepted.
    """
    spelled, place = text.split("://", 1) if "://" in text else (default, text)
    scheme = next((known for known in schemes if known == spelled), None)
    host, _, port = place.removesuffix("/").rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and int(port) <= _MAX_PORT
    named = _host(host)
    if scheme is None or named is None or not is_port:
        forms = [*(["HOST:PORT"] if default else []), *(f"{known}://HOST:PORT" for known in schemes)]
        listed = " or ".join([", ".join(forms[:-1]), forms[-1]] if forms[1:] else forms)
        raise ValueError(f"{text[:200]!r} is no address: write {listed}")
    return Url(scheme, named, int(port))


def _host(text: str) -> str | None:
    """Return a host without the brackets of an IPv6 address; None if it is malformed."""
    is_bracketed = text.startswith("[") and text.endswith("]")
    host = text[1:-1] if is_bracketed else text
    is_malformed = not host or any(not each.isprintable() or each.isspace() for each in host)
    if is_malformed or _NOT_IN_A_HOST & set(host) or (":" in host) != is_bracketed:
        return None
    return host
