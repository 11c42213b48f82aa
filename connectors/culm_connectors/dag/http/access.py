"""Rights to append to a space or read it (R14): for anyone, configured tokens, or UCANs, too.

A UCAN has to be for one of the services.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from typing import Final

from culm_connectors.dag.http.client_budgets import HttpClient
from culm_connectors.dag.http.problems import Forbidden, HttpRequestError, Unauthenticated
from culm_connectors.dag.http.settings import EVERY, AccessMode, DagHttpSettings, TokenRule
from culm_connectors.dag.service import DagService
from culm_connectors.dag.tokens import judge_access
from culm_models.dag.blocks.cid import Cid
from culm_models.dag.errors import DagError, UcanKey
from culm_models.dag.exchange.settings import SpaceAbility
from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.ucan.forms import ucan_from_jwt
from culm_models.dag.ucan.signing import verify_signature
from culm_models.dag.ucan.token import Ucan
from culm_models.dag.walk.reach import FindBlock

_SPACES_MAX: Final = 16
_JWT_DOTS: Final = 2


class DoorAccess:
    """The rules of one door. A configured token grants what its rule names, in every mode."""

    def __init__(
        self, service: DagService, settings: DagHttpSettings, clock_s: Callable[[], float] = time.time
    ) -> None:
        self._service = service
        self._settings = settings
        self._clock_s = clock_s
        self._rules = {rule.sha256: rule for rule in settings.tokens}

    def has_token(self, token: str) -> bool:
        """Return whether a token is configured."""
        return self._rule(token) is not None

    def _rule(self, token: str | None) -> TokenRule | None:
        if token is None:
            return None
        return self._rules.get(hashlib.sha256(token.encode()).hexdigest())

    def require_someone(self, client: HttpClient, ability: SpaceAbility) -> None:
        """Raise `HttpRequestError` if the client has this right in no space: before a body is read."""
        if self._mode(ability) != "anyone" and not self.has_token(client.token or ""):
            self._ucan(client, ability)

    async def require(
        self,
        client: HttpClient,
        ability: SpaceAbility,
        space: bytes,
        ucans: Mapping[Cid, bytes] | None = None,
    ) -> None:
        """Raise `HttpRequestError` unless the client has this right.

        `ucans`: UCANs that came with the request.
        """
        if self._mode(ability) == "anyone":
            return
        rule = self._rule(client.token)
        if rule is None:
            await self._require_ucan(self._ucan(client, ability), ability, space, ucans or {})
        elif not _allows(rule, ability, space):
            raise Forbidden(f"this token has not {ability} of this space")

    async def require_either(self, client: HttpClient, space: bytes) -> None:
        """Raise `HttpRequestError` unless the client may append to a space or read it."""
        try:
            await self.require(client, SpaceAbility.APPEND, space)
        except HttpRequestError:
            await self.require(client, SpaceAbility.READ, space)

    async def readable(self, client: HttpClient) -> frozenset[bytes] | None:
        """Return the spaces that a client may read, at least one; None for all of them.

        Raises `HttpRequestError`.
        """
        ability = SpaceAbility.READ
        if self._mode(ability) == "anyone":
            return None
        rule = self._rule(client.token)
        if rule is not None:
            if EVERY in rule.read:
                return None
            readable = {bytes.fromhex(space) for space in rule.read}
        else:
            leaf = self._ucan(client, ability)
            readable = set()
            refused: Forbidden | None = None
            for space in _spaces_of(leaf, ability):
                try:
                    await self._require_ucan(leaf, ability, space, {})
                except Forbidden as error:
                    refused = error
                else:
                    readable.add(space)
            if not readable and refused is not None:
                raise refused
        if not readable:
            raise Forbidden(f"this token has not {ability} of any space")
        return frozenset(readable)

    def appendable(self, client: HttpClient) -> bytes | None:
        """Return the space that a token is for, if it is for exactly one."""
        rule = self._rule(client.token)
        if rule is not None:
            named = [space for space in rule.append if space != EVERY]
            return bytes.fromhex(named[0]) if len(rule.append) == 1 and named else None
        if self._mode(SpaceAbility.APPEND) != "ucan" or client.token is None:
            return None
        spaces = _spaces_of(self._ucan(client, SpaceAbility.APPEND), SpaceAbility.APPEND)
        return spaces[0] if len(spaces) == 1 else None

    def _mode(self, ability: SpaceAbility) -> AccessMode:
        return self._settings.append if ability is SpaceAbility.APPEND else self._settings.read

    def _ucan(self, client: HttpClient, ability: SpaceAbility) -> Ucan:
        """Return the UCAN that a client has shown, with its form and signature checked."""
        if client.token is None:
            raise Unauthenticated("no Authorization: Bearer was sent")
        if self._mode(ability) != "ucan" or client.token.count(".") != _JWT_DOTS:
            raise Unauthenticated("this token is not known here")
        verdict = self._service.verdict
        try:
            ucan = ucan_from_jwt(client.token, legacy=verdict.legacy, bounds=verdict.bounds)
            verify_signature(ucan)
        except DagError as error:
            raise Unauthenticated(f"the UCAN is refused, {error.code}: {error}") from None
        return ucan

    async def _require_ucan(
        self, leaf: Ucan, ability: SpaceAbility, space: bytes, ucans: Mapping[Cid, bytes]
    ) -> None:
        now, verdict = int(self._clock_s()), self._service.verdict

        def judge(find: FindBlock) -> None:
            refused = judge_access(
                leaf, space, ability, lambda cid: ucans.get(cid) or find(cid), now, verdict
            )
            if refused is not None:
                raise Forbidden(f"the UCAN does not open this, {refused.error.code}: {refused.error}")

        await self._service.reading(judge)


def _allows(rule: TokenRule, ability: SpaceAbility, space: bytes) -> bool:
    spaces = rule.append if ability is SpaceAbility.APPEND else rule.read
    return EVERY in spaces or space.hex() in spaces


def _spaces_of(leaf: Ucan, ability: SpaceAbility) -> list[bytes]:
    """Return the spaces for which a UCAN names an ability, at most a bounded number."""
    spaces: dict[bytes, None] = {}
    for capability in leaf.claims.capabilities:
        if capability.can == ability:
            try:
                spaces[did_from_text(capability.resource)[2:]] = None
            except UcanKey:
                continue
    return list(spaces)[:_SPACES_MAX]
