"""UCANs that a peer or a client shows, for `dag/append` and `dag/read` of a space (R14)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from culm_connectors.dag.store.folder import DagFolder
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.ucan.chain import ChainRefusal, FindUcan, authorise_access
from culm_models.dag.ucan.did_key import did_key
from culm_models.dag.ucan.signing import verified_ucan
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.validation_rules import ValidationRules

_JUDGED_FOR_S: Final = 60.0
_LOOKED_AT_MAX: Final = 64


class ShownTokens:
    """The UCANs shown on one connection; they grant access for as long as they are valid.

    For the thread that works on the folder.
    """

    def __init__(self, folder: DagFolder, clock_s: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock_s = clock_s
        self._of_space: dict[bytes, list[Ucan]] = {}
        self._judged: dict[tuple[bytes, SpaceAbility], tuple[float, bool]] = {}

    def add(self, space: bytes, cid: Cid, block: bytes) -> None:
        """Add a UCAN that the peer's own key has issued; a UCAN that breaks a rule is ignored."""
        verdict = self._folder.settings.verdict
        try:
            ucan = verified_ucan(cid, block, legacy=verdict.legacy, bounds=verdict.bounds)
        except DagError:
            return
        self._of_space.setdefault(space, []).append(ucan)
        self._judged.clear()

    def opens(self, space: bytes, ability: SpaceAbility) -> bool:
        """Return whether a UCAN grants this ability now, or did less than a minute ago.

        The UCANs of its chain are looked up in the folder.
        """
        now_s = self._clock_s()
        judged_s, is_open = self._judged.get((space, ability), (0.0, False))
        if not judged_s <= now_s < judged_s + _JUDGED_FOR_S:
            is_open = any(self._judge(leaf, space, ability) for leaf in self._of_space.get(space, ()))
            if space in self._of_space:
                self._judged[space, ability] = now_s, is_open
        return is_open

    def _judge(self, leaf: Ucan, space: bytes, ability: SpaceAbility) -> bool:
        verdict, now = self._folder.settings.verdict, int(self._clock_s())
        return judge_access(leaf, space, ability, self._folder.read_ucan, now, verdict) is None


def judge_access(
    leaf: Ucan,
    space: bytes,
    ability: SpaceAbility,
    read: Callable[[Cid], bytes | memoryview | None],
    now: int,
    verdict: ValidationRules,
) -> ChainRefusal | None:
    """Return why a UCAN does not grant an ability in a space now, or None if it does.

    `read` returns the UCANs of its chain.
    """
    find = _finder(read, verdict)
    return authorise_access(leaf, did_key(space), ability, find, now, policy=verdict.chain_policy)


def _finder(read: Callable[[Cid], bytes | memoryview | None], verdict: ValidationRules) -> FindUcan:
    """Return a lookup for the chain of one leaf, which reads a bounded number of blocks."""
    looked_at = 0

    def find(cid: Cid) -> Ucan | DagError | None:
        nonlocal looked_at
        looked_at += 1
        block = read(cid) if looked_at <= _LOOKED_AT_MAX else None
        if block is None:
            return None
        try:
            return verified_ucan(cid, bytes(block), legacy=verdict.legacy, bounds=verdict.bounds)
        except DagError as error:
            return error

    return find
