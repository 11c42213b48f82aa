"""How the HTTP door is served: its address, tokens, and who may do what without one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from culm_connectors.dag.http.limits import DoorLimits

EVERY: Final = "*"
_SPACE: Final = re.compile("[0-9a-fA-F]{64}")
Mode = Literal["anyone", "allowed", "ucan"]


class DoorTls(BaseModel):
    """PEM files of what the door shows."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    certificate: Path = Field(description="own certificate and the chain behind it")
    private_key: Path


class TokenRule(BaseModel):
    """What the bearer of one configured token may do: spaces in hex, or `*` for all of them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: str = Field(pattern="^[0-9a-f]{64}$", description="of the token's text, which is kept nowhere")
    append: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    @field_validator("append", "read")
    @classmethod
    def _check_spaces(cls, spaces: tuple[str, ...]) -> tuple[str, ...]:
        for space in spaces:
            if space != EVERY and _SPACE.fullmatch(space) is None:
                raise ValueError(f"{space}: neither 64 hex digits nor *")
        return tuple(space.lower() for space in spaces)


class DagHttpSettings(DoorLimits):
    """The HTTP door: where it is served, who may do what, and its limits."""

    host: str = "127.0.0.1"
    port: int = Field(0, ge=0, le=65_535, description="0: one that is free")
    tls: DoorTls | None = Field(None, description="without it the door speaks plain HTTP")
    append: Mode = Field(
        "allowed", description="who may bring nodes and shards: anyone, tokens, or UCANs too"
    )
    read: Mode = Field("allowed", description="who may read: anyone, tokens, or UCANs too")
    tokens: tuple[TokenRule, ...] = ()
    origins: tuple[str, ...] = Field((), description="of pages that may call (CORS), as https://example.org")

    @model_validator(mode="after")
    def _check_origins(self) -> Self:
        if EVERY in self.origins:
            raise ValueError("origins: name them; `*` would let every page in")
        return self
