"""Which behaviour is asked for, where ours and that of the Go replica differ."""

from enum import StrEnum


class Compat(StrEnum):
    """`DEFAULT` refuses what it does not understand; `GO` takes it as the Go replica does."""

    DEFAULT = "default"
    GO = "go"
