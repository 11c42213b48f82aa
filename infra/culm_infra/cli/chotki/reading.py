"""What the commands that read objects share: the state as it stands, its vectors and objects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from culm_infra.cli.chotki.completion import remember_names
from culm_infra.cli.output import counting, say
from culm_infra.cli.results import Results
from culm_models.chotki.ids import Id
from culm_topics.chotki.objects import ChotkiClass, ChotkiObject, Objects, place_of
from culm_topics.chotki.state_reader import StateReader
from culm_topics.chotki.values import Elements, Pairs, plain_value
from culm_topics.kafka.clients import KafkaSettings

if TYPE_CHECKING:
    from pathlib import Path


_WAIT_S = 5.0


@contextmanager
def whole_state(
    settings: KafkaSettings, results: Results, *, state_dir: Path | None = None
) -> Iterator[StateReader]:
    """The state up to the last epoch; people are told where it is not the end of what is there."""
    with StateReader(settings, state_dir=state_dir) as reader:
        with counting("reading the state"):
            for _ in reader.catch_up(_WAIT_S):
                continue
        results.passed_over(reader.passed_over)
        if not reader.is_complete:
            say(
                f"epoch {reader.state.epoch} is shown; {reader.waiting} records of the next one are there, "
                "but not its end: is the job `chotki` running?"
            )
        elif not reader.state.epoch:
            say("no epoch yet: `culm job run chotki` merges what edges and writers bring")
        remember_names(settings, Objects(reader.state.table).names())
        yield reader


def vector_texts(vector: Mapping[int, int]) -> list[str]:
    """The last ID of each source."""
    return [str(Id(*entry)) for entry in sorted(vector.items())]


def object_as_json(found: ChotkiObject) -> dict[str, Any]:
    """An object: its fields as plain values, their types, and what was removed of sets and maps."""
    types = {} if found.class_ is None else {name: one.letter for name, one in found.class_.fields.items()}
    removed = {
        name: [plain_value(one) for one in value.removed]
        for name, value in found.fields.items()
        if isinstance(value, (Elements, Pairs)) and value.removed
    }
    others = {f"{number:x}{letter}": plain_value(value) for (number, letter), value in found.others.items()}
    return {
        "id": str(found.id),
        "class": str(found.class_id),
        "class_names": [] if found.class_ is None else list(found.class_.names),
        "names": list(found.names),
        "fields": {name: plain_value(value) for name, value in found.fields.items()},
        "types": types,
        **({"removed": removed} if removed else {}),
        **({"others": others} if others else {}),
    }


def class_as_json(found: ChotkiClass) -> dict[str, Any]:
    """A class: its fields in their order."""
    return {
        "id": str(found.id),
        "names": list(found.names),
        "fields": [
            {"name": name, "type": one.letter, "number": place_of(found.id, one)[0]}
            for name, one in found.fields.items()
        ],
    }
