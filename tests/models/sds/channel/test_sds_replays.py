"""The conversations of tests/vectors/sds, played against channels; what is expected was written by hand."""

import pytest

from culm_models.sds.wire.messages import Profile
from tests.models.sds.conversations import Json, Player, conversations, wire_of

ALL = list(conversations())
# Bytes of messages of others, which repairs are made of, are not kept over a restart.
RESTARTED = [(profile, talk) for profile, talk in ALL if talk["name"] != "repair"]


def named(value: object) -> str:
    return value["name"] if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(("profile", "conversation"), ALL, ids=named)
def test_a_conversation_goes_as_it_is_written(profile: Profile, conversation: Json) -> None:
    Player(profile, conversation).play()


@pytest.mark.parametrize(("profile", "conversation"), RESTARTED, ids=named)
def test_a_restart_after_each_step_changes_nothing(profile: Profile, conversation: Json) -> None:
    Player(profile, conversation, restarts=True).play()


@pytest.mark.parametrize(("profile", "conversation"), ALL, ids=named)
def test_the_bytes_say_what_is_written_beside_them(profile: Profile, conversation: Json) -> None:
    for step in conversation["steps"]:
        for outbound in step["says"]:
            assert wire_of(outbound["message"], profile).hex() == outbound["bytes"]
