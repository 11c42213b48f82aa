"""An entry and its operation checked together: Bamboo's rules for the entry, p2panda's for its payload.

Of an operation alone this judges its form and its schema id; what needs the log or the document is not here.
"""

from collections.abc import Iterable

from culm_models.bamboo import checks
from culm_models.bamboo.checks import CheckedEntry
from culm_models.errors import CulmError
from culm_models.p2panda.operations.operation import OperationFacts, peek

CheckedOperation = CheckedEntry[OperationFacts]
"""An entry whose payload is an operation; `hash` identifies both."""


def check_entry(
    entry_bytes: bytes, operation_bytes: bytes, *, verify_signature: bool = True
) -> CheckedOperation:
    """The entry with what its operation says. Raises `BambooError` or `P2pandaError`, cheap checks first."""
    return checks.check_entry(entry_bytes, operation_bytes, peek, verify_signature=verify_signature)


def check_many(
    pairs: Iterable[tuple[bytes, bytes]], *, verify_signature: bool = True
) -> list[CheckedOperation | CulmError]:
    """Check each (entry bytes, operation bytes): in order, the checked entry or the error that refuses it."""
    return checks.check_many(pairs, peek, verify_signature=verify_signature)
