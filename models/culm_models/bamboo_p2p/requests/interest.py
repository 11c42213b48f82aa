"""Interest of one end in a request: its current settings and all earlier ones (R12, R27, R48).

Adjustments are not acknowledged, so this end does not know when the other end has read them. Received data is
therefore checked against all settings that have been in force: the union of eagernesses, the largest
threshold for data and the smallest for notifies, the first sizes for data. Sizes only narrow, so skips are
checked against the latest.
"""

from culm_models.bamboo_p2p.errors import InterestWidened
from culm_models.bamboo_p2p.wire.messages import MAX_SIZE, Adjust, Eagerness, Propose


class RequestInterest:
    """The settings of one end for a request. Sizes and thresholds are in bytes."""

    __slots__ = (
        "_asked_all",
        "_asked_notify",
        "_first_max",
        "_first_min",
        "_largest_threshold",
        "_smallest_threshold",
        "eagerness",
        "mandatory",
        "max_size",
        "min_size",
        "threshold",
    )

    def __init__(self) -> None:
        """Create the settings that the end that did not propose has before its first adjustment (R27)."""
        self.eagerness: Eagerness | None = None
        self.threshold = 0
        self.mandatory = True
        self.min_size, self.max_size = 0, MAX_SIZE
        self._first_min, self._first_max = 0, MAX_SIZE
        self._asked_notify = self._asked_all = False
        self._largest_threshold: int | None = None
        self._smallest_threshold: int | None = None

    @classmethod
    def of_proposal(cls, proposal: Propose) -> "RequestInterest":
        """Create the settings of the proposing end from its proposal."""
        interest = cls()
        interest.mandatory = proposal.mandatory
        interest.min_size, interest.max_size = proposal.min_size, proposal.max_size
        interest._first_min, interest._first_max = proposal.min_size, proposal.max_size
        interest._set_eagerness(proposal.eagerness, proposal.threshold)
        return interest

    def adjust(self, message: Adjust) -> bool:
        """Apply an adjustment of this end. Returns whether anything changed. Raises `InterestWidened`."""
        if message.min_size is not None and message.min_size < self.min_size:
            raise InterestWidened(f"the minimum size was {self.min_size}, {message.min_size} is less")
        if message.max_size is not None and message.max_size > self.max_size:
            raise InterestWidened(f"the maximum size was {self.max_size}, {message.max_size} is more")
        before = self._settings()
        first = self.eagerness is None
        if message.min_size is not None:
            self.min_size = message.min_size
        if message.max_size is not None:
            self.max_size = message.max_size
        if first:
            self._first_min, self._first_max = self.min_size, self.max_size
        if message.may_skip:
            self.mandatory = False
        if message.eagerness is not None:
            self._set_eagerness(message.eagerness, message.threshold)
        return self._settings() != before

    def _set_eagerness(self, eagerness: Eagerness, threshold: int | None) -> None:
        self.eagerness = eagerness
        if eagerness is Eagerness.NOTIFY:
            self._asked_notify = True
        elif eagerness is Eagerness.ALL:
            self._asked_all = True
        else:
            assert threshold is not None, "a threshold stands beside its eagerness"
            self.threshold = threshold
            if self._largest_threshold is None or self._smallest_threshold is None:
                self._largest_threshold = self._smallest_threshold = threshold
            else:
                self._largest_threshold = max(self._largest_threshold, threshold)
                self._smallest_threshold = min(self._smallest_threshold, threshold)

    def _settings(self) -> tuple[object, ...]:
        return (self.eagerness, self.threshold, self.mandatory, self.min_size, self.max_size)

    # What to send to the end with this interest: the current settings apply.

    @property
    def wants_metadata(self) -> bool:
        """Whether metadata is to be sent instead of notified."""
        return self.eagerness is not Eagerness.NOTIFY

    def fits(self, size: int) -> bool:
        """Whether a payload of this size is wanted at all."""
        return self.min_size <= size <= self.max_size

    def wants_payload(self, size: int) -> bool:
        """Whether a payload that fits is to be sent instead of notified."""
        return self.eagerness is Eagerness.ALL or (
            self.eagerness is Eagerness.THRESHOLD and size <= self.threshold
        )

    # What the other end may send to the end with this interest: all settings so far apply.

    @property
    def ever_notified(self) -> bool:
        """Whether notifies of all pieces were ever requested."""
        return self._asked_notify

    @property
    def admits_metadata(self) -> bool:
        """Whether metadata may arrive."""
        return self._asked_all or self._largest_threshold is not None

    def admits_payload(self, size: int) -> bool:
        """Whether bytes of a payload of this size may arrive."""
        if not self._first_min <= size <= self._first_max:
            return False
        return self._asked_all or (self._largest_threshold is not None and size <= self._largest_threshold)

    def admits_notify(self, size: int | None) -> bool:
        """Whether a notify of a payload may arrive. If `size` is None, it is unknown and not checked."""
        if self._asked_notify:
            return True
        if self._smallest_threshold is None:
            return False
        return size is None or size > self._smallest_threshold
