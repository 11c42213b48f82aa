"""What kind of message it is follows from which parts are there."""

from __future__ import annotations

import pytest

from culm_models.sds.wire.messages import PROFILES, Message, MessageKind


@pytest.mark.parametrize(
    ("lamport", "content", "kind"),
    [
        (1, b"x", "content"),
        (0, b"x", "content"),
        (1, None, "sync"),
        (0, b"", "sync"),
        (None, b"x", "ephemeral"),
    ],
)
def test_kind_follows_from_lamport_and_content(
    lamport: int | None, content: bytes | None, kind: MessageKind
) -> None:
    assert Message("a", "b", "c", lamport, content=content).kind == kind


@pytest.mark.parametrize(("profile", "now"), [("spec", 1_763_760_000_999), ("nim", 1_763_760_000)])
def test_lamport_is_time_in_the_unit_of_the_profile(profile: str, now: int) -> None:
    facts = PROFILES["spec" if profile == "spec" else "nim"]
    assert facts.lamport_now(1_763_760_000_999) == now
    assert facts.lamport_to_send(5, 1_763_760_000_999) == now
    assert facts.lamport_to_send(now, 1_763_760_000_999) == now + 1, "never twice the same"
    assert facts.lamport_to_send(now + 9, 1_763_760_000_999) == now + 10


def test_nim_steps_over_what_it_receives_and_the_others_stand_at_it() -> None:
    after = {name: (facts.lamport_after(5, 9), facts.lamport_after(9, 5)) for name, facts in PROFILES.items()}
    assert after == {"spec": (9, 9), "js": (9, 9), "nim": (10, 10)}
