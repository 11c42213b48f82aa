"""The recorded conversations with `culm conform` are answered today, byte for byte, as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_models.conform.dispatch import OPERATIONS
from tests.conform.golden import record, transcript

_SHOWN = 10
FILES = transcript.transcripts()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_every_answer_is_the_recorded_one(path: Path) -> None:
    changed = list(transcript.differences(path))
    assert not changed, "\n".join(
        [
            f"{len(changed)} answers differ from {path.name}. README.md says how to record it anew.",
            *changed[:_SHOWN],
        ]
    )


def test_every_operation_succeeds_in_a_transcript() -> None:
    conversations = [conversation for path in FILES for conversation in transcript.read(path)]
    assert set(record.operations(conversations)) == {operation.name for operation in OPERATIONS}
    assert not record.codes(conversations)["conform.defect"]


@pytest.mark.parametrize(("text", "wrong"), [("> {}\n< {}\n< {}\n", 3), ("< {}\n", 1), ("# a\n{}\n", 2)])
def test_a_line_of_another_form_is_refused_with_its_number(text: str, wrong: int) -> None:
    with pytest.raises(ValueError, match=f"line {wrong} "):
        transcript.parse(text)


def test_a_difference_names_its_line_and_both_answers(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    request = '> {"do":"varu64.encode","n":300}'
    path.write_text(f'# Numbers\n{request}\n< {{"id":null,"ok":{{"bytes":"f9012d"}}}}\n')
    (difference,) = transcript.differences(path)
    assert difference.splitlines() == [
        "a.txt:2: Numbers",
        f"  request  {request[2:]}",
        '  expected {"id":null,"ok":{"bytes":"f9012d"}}',
        '  got      {"id":null,"ok":{"bytes":"f9012c"}}',
        f"           {' ' * 31}^ character 31",
    ]


def test_messages_of_errors_are_masked_and_nothing_else_is() -> None:
    events = '{"kind":"rejected","code":"a.b","message":"why"},{"message":"why"}'
    answer = f'{{"id":1,"ok":{{"code":7,"message":"why","events":[{events}]}}}}'
    assert transcript.masked(answer) == answer.replace('"a.b","message":"why"', '"a.b","message":"*"')
