"""Which schemas a connector serves, and which of them its index is complete for, or will soon be.

Configured schemas are served from the start. With `*` a connector also serves what its own peers announce,
within what the allow-list lets them, and what its index holds already. A schema that is new to the index is
served (announced) only once its logs have been read back, or are known before that (`promise`), so that a
peer's session finds all of them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable

from culm_connectors.access import EVERYTHING
from culm_connectors.index import LmdbLogStore
from culm_models.p2panda.schema_id import normalise

logger = logging.getLogger(__name__)

_COVERED = "covered schemas"
# An announcement with more is passed over by its readers.
MAX_SCHEMAS = 1_024
# A peer chooses these texts; real ones name one or a few operations, of 69 characters each.
MAX_SCHEMA_ID_LENGTH = 4_096


class Interest:
    """The schemas of one connector; at most `MAX_SCHEMAS`, what is above is not served."""

    def __init__(self, configured: Iterable[str], store: LmdbLogStore) -> None:
        configured = tuple(configured)
        self._store = store
        self.takes_all = EVERYTHING in configured
        self._covered: set[str] = set(covered_schemas(store))
        self._wanted: set[str] = set(configured) - {EVERYTHING}
        self._promised: set[str] = set()
        if self.takes_all:
            self._wanted |= self._covered
        elif not self._covered <= self._wanted:
            # What is not kept up from now on is not complete when it is wanted again.
            self.cover(())

    @property
    def served(self) -> tuple[str, ...]:
        """What to announce: wanted, and complete in the index or promised; in the order of a set."""
        return normalise(self._wanted & (self._covered | self._promised))

    @property
    def wanted(self) -> frozenset[str]:
        """What is to be served, now or when it has been read back."""
        return frozenset(self._wanted)

    @property
    def missing(self) -> frozenset[str]:
        """Wanted, but not read back from `logs` yet."""
        return frozenset(self._wanted - self._covered)

    def keeps(self, schema_id: str) -> bool:
        """Whether new entries of a schema belong in the index: it is wanted and complete so far."""
        return schema_id in self._covered and schema_id in self._wanted

    def want(self, schema_ids: Iterable[str]) -> bool:
        """A peer of ours announces these; True when some of them are new to us."""
        if not self.takes_all:
            return False
        new = {
            schema_id
            for schema_id in schema_ids
            if schema_id not in self._wanted and len(schema_id) <= MAX_SCHEMA_ID_LENGTH
        }
        room = MAX_SCHEMAS - len(self._wanted)
        if len(new) > room:
            logger.warning("%d schemas are not served: %d are the most", len(new) - room, MAX_SCHEMAS)
            new = set(sorted(new)[:room])
        self._wanted.update(new)
        return bool(new)

    def promise(self, schema_ids: Iterable[str]) -> None:
        """It is known what `logs` holds of these: they are served while they are being read back."""
        self._promised |= set(schema_ids)

    def cover(self, schema_ids: Iterable[str]) -> None:
        """The index is complete for these from now on, up to the offsets that it holds."""
        self._covered = (self._covered | set(schema_ids)) & self._wanted
        self._store.set_meta(_COVERED, json.dumps(sorted(self._covered)).encode())


def covered_schemas(store: LmdbLogStore) -> frozenset[str]:
    """The schemas that an index is complete for, up to its offsets."""
    kept = store.meta(_COVERED)
    return frozenset(json.loads(kept)) if kept else frozenset()
