"""Every invariant of reference 3.9, broken over a real connection, ends it and is reported by its code.

What is said is what the hand-made ends of the models' tests say, byte by byte; here the other end is a whole
peer, called or calling, over QUIC's two streams and over bymux on TCP.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from culm_connectors.bamboo_p2p import session as session_module
from culm_connectors.bamboo_p2p.peer import BambooPeer
from culm_connectors.bamboo_p2p.settings import BambooPeerSettings, Scheme, Url
from culm_connectors.edge import pump as pump_module
from culm_models.bamboo.hashes import YAMF
from culm_models.bamboo_p2p.settings import PAUSE_MS
from tests.models.bamboo_p2p.test_bamboo_p2p_further_violations import FURTHER
from tests.models.bamboo_p2p.test_bamboo_p2p_violations import VIOLATIONS
from tests.support.hand_made_bamboo import be_called_and_break, call_and_break
from tests.support.waiting import while_working

BROKEN = VIOLATIONS | FURTHER


@pytest.mark.parametrize("scheme", ["tcp", "quic"])
@pytest.mark.parametrize("name", BROKEN)
async def test_a_violation_ends_a_real_connection_with_its_code(
    tmp_path: Path, name: str, scheme: Scheme, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, break_it = BROKEN[name]
    made = break_it()
    if "for ever" in name:
        _let_time_fly(monkeypatch)
    settings = BambooPeerSettings(connection=made.settings)
    meet = be_called_and_break if made.is_proactive else call_and_break
    async with (
        while_working(),
        BambooPeer.open(tmp_path / "real", flavour=YAMF, settings=settings) as peer,
    ):
        await peer.add(list(made.held))
        error, reason = await meet(made, peer, Url(scheme, "127.0.0.1", 0))
    assert getattr(error, "code", error) == f"bamboo_p2p.{code}"
    if scheme == "quic":
        assert reason is not None and reason.application
        assert (reason.code, reason.text) == (made.end.dropped.number, f"bamboo_p2p.{code}")  # type: ignore[union-attr]


def _let_time_fly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at the clock finds that half of the longest wait is over."""
    looks = itertools.count()
    monkeypatch.setattr(session_module, "now_ms", lambda: next(looks) * PAUSE_MS // 2)
    monkeypatch.setattr(pump_module, "_TICK_S", 0.001)
