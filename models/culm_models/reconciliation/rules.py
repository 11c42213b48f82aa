"""The rules by which a side splits a range in which the two sets differ (rbsr.md, 1.3 and 3.2)."""

from typing import Final, Literal, TypeAlias

Rule: TypeAlias = Literal["upstream", "even"]
"""`upstream`: what range-reconcile 1.0.2 does, message for message. `even`: near-equal parts, our default."""

RULES: Final[tuple[Rule, ...]] = ("upstream", "even")
