"""A UCAN as its fields say it, whichever form it came in (reference 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from culm_models.dag.blocks.cid import Cid

VERSION: Final = "0.9.1"
LEGACY_VERSION: Final = "0.8.1"


@dataclass(frozen=True, slots=True)
class Capability:
    """What may be done, to what, and with which caveats."""

    can: str
    resource: str
    nb: dict[str, Any] | None = None

    def as_map(self) -> dict[str, Any]:
        """The capability as forms have it."""
        plain: dict[str, Any] = {"can": self.can, "with": self.resource}
        return plain if self.nb is None else {**plain, "nb": self.nb}


@dataclass(frozen=True, slots=True)
class Claims:
    """All that is signed, but for the spelling of the text."""

    version: str
    issuer: bytes
    audience: bytes
    capabilities: tuple[Capability, ...]
    expires: int | None
    not_before: int | None
    nonce: str | None
    facts: tuple[dict[str, Any], ...]
    proofs: tuple[Cid, ...]


@dataclass(frozen=True, slots=True)
class Ucan:
    """One UCAN: its claims, the text that is signed, and the block that has its CID."""

    claims: Claims
    signature: bytes
    signed_text: bytes = field(repr=False)
    cid: Cid
    block: bytes = field(repr=False)
