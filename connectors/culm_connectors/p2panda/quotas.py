"""Quotas of the index: bytes of one author's logs, and of the entries that one peer sends.

A quota is judged when a peer brings an entry, before anything is produced. What comes from Kafka is the
deployment's agreed state: it counts for its author, and is never refused. Whoever brings what is over a quota
goes on with its session and is not blamed, since it cannot know.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from culm_connectors.logs.hub import Arrival
from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.rate_limit import LimitedLog
from culm_models.p2panda.ingest import NotAdmittedError
from culm_models.p2panda.operations.operation import CheckedOperation

_LIMITED = LimitedLog(logging.getLogger(__name__))


class AuthorQuotaError(NotAdmittedError):
    """The logs of the entry's author have used up their quota."""

    code: ClassVar[str] = "index.quota_author"


class PeerQuotaError(NotAdmittedError):
    """The entries from this peer have used up its quota; another peer may send the entry."""

    code: ClassVar[str] = "index.quota_peer"


class Quotas:
    """The quotas of one index, in bytes of entries and operations; 0 means unlimited. For one event loop.

    `admit` counts an entry as on its way, which `arrived` ends: what is admitted must be stored.
    """

    def __init__(self, store: LmdbLogStore, *, author_bytes: int, peer_bytes: int) -> None:
        self._store = store
        self._author_bytes = author_bytes
        self._peer_bytes = peer_bytes
        self._by_author: Counter[bytes] = Counter()
        self._by_peer: Counter[bytes] = Counter()

    def admit(self, checked: CheckedOperation, remote: bytes) -> None:
        """Count an entry from a remote as on its way. Raises `AuthorQuotaError`, `PeerQuotaError`."""
        author, size = checked.entry.public_key, checked.size_bytes
        of_author, of_peer = self._store.usage(author, remote)
        if 0 < self._author_bytes < of_author + self._by_author[author] + size:
            _LIMITED.warning(
                "the logs of author %s have the %d bytes that they may have (%s, max_bytes_per_author)",
                author.hex(),
                self._author_bytes,
                AuthorQuotaError.code,
            )
            raise AuthorQuotaError(f"the logs of this author may take {self._author_bytes} bytes")
        if 0 < self._peer_bytes < of_peer + self._by_peer[remote] + size:
            _LIMITED.warning(
                "the data of peer %s has reached its limit of %d bytes (%s, max_bytes_per_peer)",
                remote.hex(),
                self._peer_bytes,
                PeerQuotaError.code,
            )
            raise PeerQuotaError(f"the data of this peer may take {self._peer_bytes} bytes")
        self._by_author[author] += size
        self._by_peer[remote] += size

    def arrived(self, arrivals: Iterable[Arrival]) -> None:
        """End the count of entries that are in the index now, or that could not be stored."""
        for arrival in arrivals:
            for counts, name in (
                (self._by_author, arrival.checked.entry.public_key),
                (self._by_peer, arrival.remote),
            ):
                counts[name] -= arrival.checked.size_bytes
                if not counts[name]:
                    del counts[name]
