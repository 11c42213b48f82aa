"""A field's value as a Python value, and back (reference 1.4, 3.4).

| type | Python |
|---|---|
| F I S N Z | `float`, `int`, `str`, and the sums of N and Z as `int` |
| R T | `Id`, `Term` |
| E | `Elements`: a tuple in stored order, with the removed elements beside it |
| M | `Pairs`: a mapping whose keys keep their types, with the removed keys beside it |
| V | a dictionary of sources and progress |
| L | a tuple of its elements |
| a value that does not parse as its type | `Unreadable` |

Texts that are not UTF-8 are read with surrogate escapes, as Python reads file names, and written back
unchanged. Written values have empty stamps, like values read from text: `culm_models.chotki.rdx.delta` turns
them into operands.

`scalars`: single values, sets, maps and unreadable bytes. `reading` (also as JSON) and `writing`: fields.
"""

from culm_topics.chotki.values.reading import plain_value, read_value
from culm_topics.chotki.values.scalars import Elements, Pairs, Scalar, Term, Unreadable, Value
from culm_topics.chotki.values.writing import value_from_text, write_value

__all__ = [
    "Elements",
    "Pairs",
    "Scalar",
    "Term",
    "Unreadable",
    "Value",
    "plain_value",
    "read_value",
    "value_from_text",
    "write_value",
]
