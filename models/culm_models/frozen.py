"""Making frozen records at the price of plain ones, for the few that are made by the thousand.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which for nine fields
costs more than parsing them. `unfrozen` gives a twin with the same slots and a plain constructor; an
instance of it becomes the frozen record when its `__class__` is set, which the interpreter allows because
the layouts are the same.
"""

from dataclasses import fields, make_dataclass
from typing import Any


def unfrozen(record: type) -> Any:
    """A class with the fields of the frozen, slotted dataclass `record`, by position; not frozen.

    The bases of `record`, if any, have no slots of their own.
    """
    return make_dataclass(
        f"_Unfrozen{record.__name__}",
        [(field.name, Any) for field in fields(record)],
        bases=record.__bases__,
        slots=True,
    )
