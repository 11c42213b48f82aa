"""A received filter that holds exactly the pairs it was given, and counts how often it was asked."""

from collections.abc import Iterable
from itertools import count

from culm_models.sds.acks.acknowledgement import HashPair

_NUMBERS = count()


class ExactFilter:
    """Satisfies `acknowledgement.Filter`. Each counts as another one, unless a digest is named."""

    def __init__(
        self, pairs: Iterable[HashPair], *, is_evidence: bool = True, digest: bytes | None = None
    ) -> None:
        self.digest = b"%d" % next(_NUMBERS) if digest is None else digest
        self.pairs = frozenset(pairs)
        self.is_evidence = is_evidence
        self.asked = 0

    def contains(self, pair: HashPair, /) -> bool:
        self.asked += 1
        return pair in self.pairs
