"""The SDS demo's comparison finds what is lost, received twice, different or unheard, and nothing else."""

from __future__ import annotations

from collections import Counter
from typing import Any

from culm_infra.demo.kit.report import SceneFigures, outcome_text
from culm_infra.demo.sds.actors import ParticipantActor, Transcript
from culm_infra.demo.sds.convergence import Pipeline, check_convergence, log_hash, unmet, wanted_log
from culm_infra.demo.sds.plan import make_roles
from culm_models.sds.frames.messages import EventFrame

CHANNEL = "demo-spec"


def told(
    kind: str, who: str | None, message_id: str, time_ms: int, details: dict[str, Any], content: bytes | None
) -> EventFrame:
    return EventFrame("", None, kind, who, message_id, time_ms, details, content)


def transcripts() -> dict[str, Transcript]:
    """Ada and Ben have each said one thing, have the other's, and know that they were heard."""
    ada, ben = Transcript("ada"), Transcript("ben")
    for own, other, message_id, lamport in ((ada, ben, "a1", 5), (ben, ada, "b1", 5)):
        content = message_id.encode()
        own.record(told("sent", own.participant_id, message_id, 100, {"lamport_timestamp": lamport}, content))
        details = {"lamport_timestamp": lamport, "sender_id": own.participant_id}
        other.record(told("delivered", None, message_id, 130, details, content))
        own.record(told("acknowledged", own.participant_id, message_id, 160, {"attempts": 2}, None))
    return {"ada": ada, "ben": ben}


def pipeline(people: dict[str, Transcript]) -> Pipeline:
    whole = Transcript("")
    for row in wanted_log(people):
        whole.record(
            told("delivered", None, row[1], 1, {"lamport_timestamp": row[0], "sender_id": row[2]}, row[3])
        )
    return Pipeline({CHANNEL: whole}, {CHANNEL: Counter(row[1] for row in wanted_log(people))}, Counter())


def judged(people: dict[str, Transcript], observed: Pipeline, open_ends: list[str]) -> SceneFigures:
    endpoint: Any = None
    roles = [role for role in make_roles(2) if role.channel_id == CHANNEL]
    return check_convergence(
        [ParticipantActor(role, people[role.participant_id], endpoint) for role in roles], observed, open_ends
    )


def test_equal_logs_that_were_heard_are_no_problem() -> None:
    people = transcripts()
    roles = [role for role in make_roles(2) if role.channel_id == CHANNEL]
    assert unmet(roles, {CHANNEL: people}, pipeline(people)) == []
    made = judged(people, pipeline(people), []).as_json()
    assert made["holds"]
    assert [row["ack_p50_ms"] for row in made["participants"]] == [60, 60]
    assert "retries" in made["channels"][0]


def test_logs_are_in_the_order_of_timestamp_and_id() -> None:
    assert [row[1] for row in wanted_log(transcripts())] == ["a1", "b1"]
    assert len({log_hash(transcript.log()) for transcript in transcripts().values()}) == 1


def test_a_hosted_participants_own_delivery_is_not_a_second_one() -> None:
    people = transcripts()
    details = {"lamport_timestamp": 5, "sender_id": "ben"}
    people["ben"].record(told("delivered", None, "b1", 110, details, b"b1"))
    assert people["ben"].repeated == 0
    people["ben"].record(told("delivered", None, "b1", 111, details, b"b1"))
    assert judged(people, pipeline(people), []).problems == ["demo-spec/ben received 1 messages twice"]


def test_what_is_missing_is_said_by_name_and_number() -> None:
    people = transcripts()
    del people["ben"].messages["a1"]
    del people["ada"].heard_ms["a1"]
    roles = [role for role in make_roles(2) if role.channel_id == CHANNEL]
    observed = pipeline(transcripts())
    observed.stored[CHANNEL].pop("b1")
    open_ends = unmet(roles, {CHANNEL: people}, observed)
    assert open_ends == [
        "demo-spec/ada does not know whether 1 messages were heard",
        "demo-spec/ben lacks 1 messages",
        "the store lacks 1 messages of demo-spec",
    ]
    made = judged(people, observed, open_ends)
    assert not made.holds
    assert made.problems == [], "nothing is wrong: it may all be on its way"
    assert outcome_text(made.problems, made.unreached) == "not reached in time"


def test_other_bytes_under_the_same_id_are_told() -> None:
    people = transcripts()
    people["ben"].messages["a1"] = (5, "ada", b"something else")
    problems = judged(people, pipeline(people), []).problems
    assert "demo-spec/ben holds 1 messages otherwise than their senders" in problems
    assert "the logs of demo-spec differ" in problems


def test_the_last_word_of_a_channel_without_syncs_cannot_be_heard() -> None:
    roles = [role for role in make_roles(2) if role.profile == "nim"]
    people = transcripts()
    del people["ben"].heard_ms["b1"]
    observed = pipeline(people)
    channel = roles[0].channel_id
    renamed = Pipeline(
        {channel: observed.transcripts[CHANNEL]}, {channel: observed.stored[CHANNEL]}, Counter()
    )
    assert unmet(roles, {channel: people}, renamed) == []


def test_ephemeral_messages_are_in_no_log() -> None:
    transcript = Transcript("ada")
    transcript.record(told("delivered", None, "e1", 1, {"sender_id": "ben", "ephemeral": True}, b"is typing"))
    assert not transcript.log()
    assert transcript.ephemeral == {"e1": 1}
