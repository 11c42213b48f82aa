"""Values that merge ("RDX"): their form, merge, difference, stamps (reference 1.4 and 3).

- `first`: stamps and elements, which all but a few types are made of. `version_vector`: vectors.
- `values` says whether bytes parse as their type.
- `merge` merges one field; `batch` many at once that stand in a `column`; the latter two need numpy and
  are not imported here.
- `diff` finds what a peer lacks (`xdiff`) and what makes one value into another (`delta`); `stamp` puts a
  source in.
- `classes` reads class definitions.
- `text` reads and prints values: those of one stamp by `scalars`, sets and maps by `braces`.
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
