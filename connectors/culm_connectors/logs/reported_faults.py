"""Which faults of authors were reported already: a fork is proven once, however often it is brought again."""

from __future__ import annotations

from collections import OrderedDict

MAX_LOGS = 65_536


class ReportedFaults:
    """The first place in each log at which its author contradicts itself, as far as it was reported.

    Of the `MAX_LOGS` logs that it was last asked about: others are reported again.
    """

    def __init__(self) -> None:
        self._first: OrderedDict[bytes, int] = OrderedDict()

    def is_first(self, log_key: bytes, seq_num: int) -> bool:
        """Whether a fault in this place is to be reported; what comes behind it follows from it."""
        first = self._first.get(log_key)
        self._first[log_key] = seq_num if first is None else min(first, seq_num)
        self._first.move_to_end(log_key)
        if len(self._first) > MAX_LOGS:
            self._first.popitem(last=False)
        return first is None or seq_num < first
