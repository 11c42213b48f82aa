"""Whatever programs write, and whenever it is merged: a consumer's dictionaries are what a replica holds."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from culm_models.chotki.ids import Id
from culm_topics.chotki.changes import Edit, EditClass, Name, NewClass, NewObject, Plus
from culm_topics.chotki.errors import ClassRefused, ValueRefused
from culm_topics.chotki.objects import ChotkiObject, Objects
from culm_topics.chotki.parquet import write_tables
from culm_topics.chotki.state_file import StateFile
from culm_topics.chotki.values import Elements, Pairs, Term
from tests.support.chotki.programs import ORIGIN, Programs, element, rows

SOURCES = (10, 11)
NAMES = st.sampled_from(["Age", "Mail", "Note", "Tags", "Visits", "age", "zz"])
SCALARS = st.one_of(
    st.integers(-5, 5),
    st.sampled_from(["a", "b", ""]),
    st.sampled_from([Term("a"), Term("t")]),
    st.builds(Id.make, st.integers(1, 3), st.integers(1, 3)),
    st.sampled_from([0.5, 2.5]),
)
TRUE_SCALARS = SCALARS.filter(lambda scalar: scalar not in (0, "", Id(0, 0)))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "F": st.sampled_from([0.0, 1.5, -2.5]),
    "I": st.integers(-3, 3),
    "R": st.builds(Id.make, st.integers(1, 3), st.integers(0, 3)),
    "S": st.sampled_from(["", "x", "größe"]),
    "T": st.sampled_from(["", "x"]),
    "N": st.integers(0, 3).map(Plus),
    "Z": st.integers(-3, 3).map(Plus),
    "E": st.lists(SCALARS, max_size=3, unique_by=lambda scalar: (type(scalar), scalar)),
    "M": st.dictionaries(st.sampled_from(["k", "l", Term("k")]), TRUE_SCALARS, max_size=3),
    "V": st.dictionaries(st.integers(1, 3), st.integers(1, 3).map(lambda seq: seq << 12), max_size=2),
}
LETTERS = st.sampled_from(sorted(VALUES))


class ProgramsAndReplica(RuleBasedStateMachine):
    """Two writers, an epoch now and then, an export now and then, and a replica that hears every packet."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.programs = Programs()
        self.classes: list[Id] = []
        self.objects: list[Id] = []
        self.changed: set[Id] = set()

    def teardown(self) -> None:
        self.folder.cleanup()

    # What programs write.

    @rule(fields=st.dictionaries(NAMES, LETTERS, min_size=1, max_size=4), src=st.sampled_from(SOURCES))
    def new_class(self, fields: dict[str, str], src: int) -> None:
        (id,) = self.programs.write(NewClass(fields), src=src)
        assert id is not None
        self.classes.append(id)
        self.merge()

    @precondition(lambda self: self.classes)
    @rule(data=st.data(), src=st.sampled_from(SOURCES))
    def edit_class(self, data: st.DataObject, src: int) -> None:
        class_id = data.draw(st.sampled_from(self.classes))
        class_ = self.programs.known_to(src).class_of(class_id)
        assert class_ is not None
        free = NAMES.filter(lambda name: name not in class_.fields)
        added = data.draw(st.dictionaries(free, LETTERS, max_size=2))
        renamed = {old: f"{field.name}z" for old, field in class_.fields.items() if data.draw(st.booleans())}
        with suppress(ClassRefused):
            self.programs.write(EditClass(class_id, added, renamed), src=src)

    @precondition(lambda self: self.classes)
    @rule(data=st.data(), src=st.sampled_from(SOURCES))
    def new_object(self, data: st.DataObject, src: int) -> None:
        class_id = data.draw(st.sampled_from(self.classes))
        (id,) = self.programs.write(NewObject(class_id, self.values(data, class_id, src)), src=src)
        assert id is not None
        self.objects.append(id)

    @precondition(lambda self: self.known_objects())
    @rule(data=st.data(), src=st.sampled_from(SOURCES))
    def edit(self, data: st.DataObject, src: int) -> None:
        id = data.draw(st.sampled_from(self.known_objects()))
        class_id = self.view.class_id_of(id)
        assert class_id is not None
        with suppress(ValueRefused):
            self.programs.write(Edit(id, self.values(data, class_id, src)), src=src)

    @precondition(lambda self: self.known_objects())
    @rule(data=st.data(), name=st.sampled_from(["ann", "ben"]), src=st.sampled_from(SOURCES))
    def give_name(self, data: st.DataObject, name: str, src: int) -> None:
        self.programs.write(Name(name, data.draw(st.sampled_from(self.known_objects()))), src=src)

    # What comes of it.

    @rule()
    def merge(self) -> None:
        for applied in self.programs.merge():
            self.changed |= {id for id, _ in self.programs.state.table.changed(applied.window)}
        self.consumer_has_what_the_replica_holds()

    @rule()
    def export(self) -> None:
        """The last row of each object has its dictionary, whatever was exported before."""
        before = self.changed
        self.changed = set()
        folder = Path(self.folder.name) / "objects"
        done = write_tables(self.programs.state, ORIGIN, folder)
        tables = {table.class_id: table for table in done.tables}
        for class_id, table in tables.items():
            exported = rows(folder / table.folder)
            objects = {
                str(object_.id): object_ for object_ in self.view.objects(self.view.ids_of_class(class_id))
            }
            assert exported.keys() == objects.keys()
            for id, object_ in objects.items():
                assert set(told(exported[id])) == set(told(as_row(object_))), (before, id)

    def consumer_has_what_the_replica_holds(self) -> None:
        state = StateFile()
        state.put_all(self.programs.replica.store.values())
        mine, theirs = self.view, Objects(state)
        assert list(mine.objects()) == list(theirs.objects())
        assert list(mine.classes()) == list(theirs.classes())
        assert mine.names() == theirs.names()
        assert removed(mine) == removed(theirs)
        state.close()

    @invariant()
    def nothing_is_passed_over(self) -> None:
        assert self.programs.staging.passed_over.records == 0

    @property
    def view(self) -> Objects:
        return Objects(self.programs.state.table)

    def known_objects(self) -> list[Id]:
        return [id for id in self.objects if self.view.class_id_of(id) is not None]

    def values(self, data: st.DataObject, class_id: Id, src: int) -> dict[str, Any]:
        class_ = self.programs.known_to(src).class_of(class_id)
        assert class_ is not None
        return {
            name: data.draw(VALUES[field.letter])
            for name, field in class_.fields.items()
            if data.draw(st.booleans())
        }


def removed(view: Objects) -> dict[tuple[Id, str], Any]:
    return {
        (object_.id, name): value.removed
        for object_ in view.objects()
        for name, value in object_.fields.items()
        if isinstance(value, (Elements, Pairs))
    }


def as_row(object_: ChotkiObject) -> dict[str, Any]:
    """An object as its row tells it, by what is in it and not by names of columns."""
    return {name: cell(value) for name, value in object_.fields.items()}


def told(row: dict[str, Any]) -> Iterator[str]:
    there = (value for name, value in row.items() if name not in ("epoch", "_others"))
    values = sorted(repr(value) for value in there if value is not None)
    return (f"{number} {value}" for number, value in enumerate(values))


def cell(value: Any) -> Any:
    match value:
        case Id() | Term():
            return str(value)
        case Elements():
            return {"present": [*map(scalar, value)], "removed": [*map(scalar, value.removed)]}
        case Pairs():
            present = [{"key": scalar(key), "value": scalar(mapped)} for key, mapped in value.items()]
            return {"present": present, "removed": [*map(scalar, value.removed)]}
        case dict():
            return [(f"{src:x}", pro) for src, pro in value.items()]
        case _:
            return value


def scalar(value: Any) -> dict[str, Any]:
    for kind, letter in ((Id, "r"), (Term, "t"), (str, "s"), (float, "f")):
        if isinstance(value, kind):
            return element(**{letter: str(value) if letter in "rt" else value})
    return element(i=value)


ProgramsAndReplica.TestCase.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
TestProgramsAndReplica = ProgramsAndReplica.TestCase
