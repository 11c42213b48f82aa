"""Making frozen records at the price of plain ones, for the few that are made by the thousand.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which for nine fields
costs more than parsing them. `unfrozen` gives a twin with the same slots and a plain constructor; an
instance of it becomes the frozen record when its `__class__` is set, which the interpreter allows because
the layouts are the same.
"""

from dataclasses import fields
from typing import Any


def unfrozen(record: type) -> Any:
    """A class with the fields of the frozen, slotted dataclass `record`, by position; not frozen.

    `record` may inherit fields from one other dataclass of that kind.
    """
    names = [field.name for field in fields(record)]
    lines = [f"def __init__(self, {', '.join(names)}):", *(f"    self.{name} = {name}" for name in names)]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)  # the names are those of a dataclass
    # A frozen base refuses to set its fields: the plain setter, with its twin for deleting, takes its place.
    return type(
        f"_Unfrozen{record.__name__}",
        record.__bases__,
        {
            # A generic base asks for it.
            "__orig_bases__": getattr(record, "__orig_bases__", record.__bases__),
            "__slots__": vars(record)["__slots__"],
            "__init__": made["__init__"],
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )
