"""A UCAN as decoded fields, independent of its form (reference 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from culm_models.dag.blocks.cid import Cid

VERSION: Final = "0.9.1"
LEGACY_VERSION: Final = "0.8.1"


@dataclass(frozen=True, slots=True)
class Capability:
    """A right: the ability (`can`), the resource, and the caveats (`nb`)."""

    can: str
    resource: str
    nb: dict[str, Any] | None = None

    def as_map(self) -> dict[str, Any]:
        """Return the capability as the map that both forms encode."""
        plain: dict[str, Any] = {"can": self.can, "with": self.resource}
        return plain if self.nb is None else {**plain, "nb": self.nb}


@dataclass(frozen=True, slots=True)
class Claims:
    """The signed fields. The formatting of the signed text is not part of them."""

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
    """A UCAN: its claims, the signed text, and the block with its CID."""

    claims: Claims
    signature: bytes
    signed_text: bytes = field(repr=False)
    cid: Cid
    block: bytes = field(repr=False)
