"""Values that merge ("RDX"): their form, merge, difference and stamps (reference 1.4 and 3).

- `first`: stamps and elements, which most types consist of. `version_vector`: vectors.
- `values` checks whether bytes parse as their type.
- `merge` merges one field, `batch` many fields of a `column` at once; `batch` and `column` need numpy and
  are not imported here.
- `diff` finds what a peer is missing (`xdiff`) and what turns one value into another (`delta`); `stamp` sets
  the source.
- `classes` reads class definitions.
- `text` reads and prints values: values of one stamp with `scalars`, sets and maps with `braces`.
"""

from culm_models.chotki.rdx.classes import ClassField, parse_class, write_class
from culm_models.chotki.rdx.diff import delta, outranks, xdiff
from culm_models.chotki.rdx.merge import merge
from culm_models.chotki.rdx.stamp import stamp
from culm_models.chotki.rdx.text import parse_text, print_text
from culm_models.chotki.rdx.values import FIELD_LETTERS, check_value
from culm_models.chotki.rdx.version_vector import parse_vector, write_vector

__all__ = [
    "FIELD_LETTERS",
    "ClassField",
    "check_value",
    "delta",
    "merge",
    "outranks",
    "parse_class",
    "parse_text",
    "parse_vector",
    "print_text",
    "stamp",
    "write_class",
    "write_vector",
    "xdiff",
]
