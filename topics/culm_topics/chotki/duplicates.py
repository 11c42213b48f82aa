"""Objects of a state that have one value in a hash-indexed field, which Go refuses (reference 10, 4)."""

from __future__ import annotations

from typing import Final

from culm_models.chotki.ids import Id
from culm_models.chotki.unique_values import Duplicate, UniqueValues
from culm_topics.chotki.objects import FieldSource

MOST_VALUES: Final = 1_000_000


def find_duplicates(source: FieldSource, most: int = MOST_VALUES) -> list[Duplicate]:
    """All of them, of at most so many values; only classes with such fields are looked through."""
    values = UniqueValues(most)
    for class_id in source.class_ids():
        if (entries := source.fields(class_id).get((0, "C"))) is not None:
            values.learn_class(class_id, entries)
    for class_id in sorted(values.classes):
        for id in source.ids(class_id):
            for (number, letter), value in source.fields(id).items():
                values.take(class_id, Id(id.src, id.pro + number), letter, value)
    return values.duplicates()
