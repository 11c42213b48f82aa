"""Fast construction of frozen records, for the few classes with thousands of instances.

The constructor of a frozen dataclass sets each field through `object.__setattr__`, which for nine fields
costs more than parsing them. `unfrozen` returns a twin class with the same slots and a plain constructor. An
instance of it becomes the frozen record when its `__class__` is set, which the interpreter allows because
the layouts are equal.
"""

from dataclasses import fields
from typing import Any


def unfrozen(record: type) -> Any:
    """Return a class with the fields of the frozen, slotted dataclass `record`, by position, but not frozen.

    `record` may inherit fields from one other such dataclass.
    """
    names = [field.name for field in fields(record)]
    lines = [f"def __init__(self, {', '.join(names)}):", *(f"    self.{name} = {name}" for name in names)]
    made: dict[str, Any] = {}
    exec("\n".join(lines), made)  # the names are those of a dataclass
    # A frozen base refuses to set or delete fields; the plain functions of `object` replace its own.
    return type(
        f"_Unfrozen{record.__name__}",
        record.__bases__,
        {
            # Generic bases require it.
            "__orig_bases__": getattr(record, "__orig_bases__", record.__bases__),
            "__slots__": vars(record)["__slots__"],
            "__init__": made["__init__"],
            "__setattr__": object.__setattr__,
            "__delattr__": object.__delattr__,
        },
    )
