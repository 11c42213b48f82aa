"""Settings of p2panda's reference peer that have a place in the settings file."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from culm_connectors.p2panda.settings import DriverSettings, SessionSettings


class PeerSection(BaseModel):
    """`culm p2panda peer`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    directory: Path | None = Field(
        None, description="its key and its store; by default the user's data directory"
    )
    datagram_size: int | Literal["auto"] = Field("auto", description="1200, 1452, 8900 bytes, or auto")
    sessions: SessionSettings = Field(SessionSettings(), description="how sessions find out what differs")
    driver: DriverSettings = Field(DriverSettings(), description="limits on what one remote may send")
