"""A field's value as a Python value, and back (reference 1.4, 3.4).

| type | Python |
|---|---|
| F I S N Z | `float`, `int`, `str`, and the sums of N and Z as `int` |
| R T | `Id`, `Term` |
| E | `Elements`: a tuple in stored order, with those that were removed beside it |
| M | `Pairs`: a mapping whose keys keep their types, with the keys that were removed beside it |
| V | a dictionary of sources and progress |
| L | a tuple of its elements |
| what does not parse as its type | `Unreadable` |

Texts that are not UTF-8 are read with surrogate escapes, as Python reads file names, and written back as they
were. What is written has empty stamps, as a value that was read from text has: `culm_models.chotki.rdx.delta`
makes an operand of it.

`scalars`: single values, sets, maps and unreadable bytes. `reading` (as JSON has them, too) and `writing`: a
field.
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
