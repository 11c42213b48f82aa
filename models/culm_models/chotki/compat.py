"""The choice of behaviour for cases in which Culm and the Go replica differ."""

from enum import StrEnum


class Compat(StrEnum):
    """`DEFAULT` refuses input that it does not understand; `GO` accepts it as the Go replica does."""

    DEFAULT = "default"
    GO = "go"
