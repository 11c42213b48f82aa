"""A received filter that holds exactly the pairs it was given, and counts how often it was asked."""

from collections.abc import Iterable

from culm_models.sds.acks.acknowledgement import HashPair


class ExactFilter:
    """Satisfies `acknowledgement.Filter`."""

    def __init__(self, pairs: Iterable[HashPair], *, is_evidence: bool = True) -> None:
        self.pairs = frozenset(pairs)
        self.is_evidence = is_evidence
        self.asked = 0

    def contains(self, pair: HashPair, /) -> bool:
        self.asked += 1
        return pair in self.pairs
