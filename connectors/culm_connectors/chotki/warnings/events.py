"""What an edge reports of a session beside what the session does (`culm_models.chotki.events`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from culm_models.chotki.events import SessionEvent

LATE = "chotki.late"
LOOP = "chotki.loop"
REPEATED = "chotki.repeated"
ID_REUSED = "chotki.id_reused"
SOURCE_RESTORED = "chotki.source_restored"
GAP = "chotki.gap"
UNIQUE_DUPLICATE = "chotki.unique_duplicate"


@dataclass(frozen=True, slots=True)
class Warned(SessionEvent):
    """Something is not as it should be, and nothing is refused for it (reference 4.6, 9.2 rule 9, 10.10)."""

    kind: ClassVar[str] = "warning"
    code: str
    message: str
