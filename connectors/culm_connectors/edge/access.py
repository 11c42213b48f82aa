"""Access rules of principals: an allow-list in a file, reloaded while the process runs.

The file is TOML or JSON and has a table for each protocol, which maps a principal to a list of names that it
may use there, or to `["*"]` for everything. The principal `*` stands for everybody else. A principal that is
not listed is refused.

    [peers]
    2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96 = ["*"]
    "*" = ["schema_definition_v1"]

A principal is the hex of an Ed25519 key, `tls:` or `token:` with 64 hex digits, or `address:` with a host.
Each protocol has its own names: schema ids in `peers` (p2panda), channel ids in `channels` (SDS). The table
`peers` is required. A principal that it lets in has access to everything of a protocol without a table.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
import logging
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from culm_connectors.errors import ConnectorError
from culm_connectors.followed_file import FollowedFile, signature_of
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import FINGERPRINT_SIZE, Principal
from culm_models.keys import PUBLIC_KEY_SIZE

EVERYTHING = "*"
PEERS = "peers"
_MAX_FILE_BYTES = 16 * 1024 * 1024
_HASHES = ("tls", "token")

Allowed = frozenset[str] | None
"""Names that a principal may use, as the protocol defines them; None means everything, empty nothing."""


class AccessError(ConnectorError):
    """The allow-list cannot be read, or contains an invalid rule."""

    code: ClassVar[str] = "connector.access"


@dataclass(frozen=True, slots=True)
class AccessRules:
    """One table: the rights of each principal, by its name, and of everybody else."""

    principals: Mapping[str, Allowed]
    everybody_else: Allowed = frozenset()

    def of(self, name: str) -> Allowed:
        """Return the names that a principal may use."""
        return self.principals.get(name, self.everybody_else)

    def allows(self, name: str, what: str) -> bool:
        """Return whether a principal may use a name."""
        allowed = self.of(name)
        return allowed is None or what in allowed

    def judge(self, principal: Principal) -> Refusal | None:
        """Return why a principal may not connect, or None if it may."""
        if self.of(principal.name) != frozenset():
            return None
        return Refusal("this key is not on the allow-list" if principal.key else "not on the allow-list")

    def summary(self) -> str:
        """Return the number of principals and the rights of everybody else, in words."""
        others = self.everybody_else
        rest = "everything" if others is None else f"{len(others)} names" if others else "nothing"
        return f"{len(self.principals)} principals, {rest} for everybody else"

    def let_in(self) -> AccessRules:
        """Return rules that allow everything to each principal that may connect by these rules."""
        return AccessRules(
            {name: allowed and None for name, allowed in self.principals.items()},
            self.everybody_else and None,
        )


ALL_FOR_EVERYBODY = AccessRules({}, None)


@dataclass(frozen=True, slots=True)
class AccessList:
    """The rules in force, with one table for each protocol."""

    tables: Mapping[str, AccessRules]
    otherwise: AccessRules = ALL_FOR_EVERYBODY
    """The rules of a protocol without a table of its own."""

    def rules(self, table: str) -> AccessRules:
        """Return the rules of one protocol."""
        return self.tables.get(table, self.otherwise)

    def summary(self) -> str:
        """Return the summary of each table, in words."""
        return "; ".join(f"{name}: {rules.summary()}" for name, rules in self.tables.items())


ALLOW_EVERYBODY = AccessList({})


def load_access_list(path: Path, tables: Collection[str]) -> AccessList:
    """Load an allow-list, which may have these tables in addition to `peers`.

    Raises `AccessError`, which names the wrong part of the file.
    """
    try:
        if path.stat().st_size > _MAX_FILE_BYTES:
            raise AccessError(f"{path} is larger than {_MAX_FILE_BYTES} bytes")
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:
        raise AccessError(
            f"{path} cannot be read: {error}", hint="it is TOML, or JSON when named *.json"
        ) from error
    known = {PEERS, *tables}
    if not isinstance(tree, dict) or PEERS not in tree or not set(tree) <= known:
        others = ", ".join(f"`{name}`" for name in sorted(known - {PEERS}))
        raise AccessError(f"{path} must hold a table, `{PEERS}`, and may hold others: {others}")
    rules = {name: _rules(path, name, table) for name, table in tree.items()}
    return AccessList(rules, rules[PEERS].let_in())


def _rules(path: Path, table: str, rows: Any) -> AccessRules:
    if not isinstance(rows, dict):
        raise AccessError(f"{path}: `{table}` is no table")
    principals: dict[str, Allowed] = {}
    everybody_else: Allowed = frozenset()
    for name, names in rows.items():
        allowed = _allowed(path, name, names)
        if name == EVERYTHING:
            everybody_else = allowed
        else:
            principals[_principal(path, name)] = allowed
    return AccessRules(principals, everybody_else)


def _principal(path: Path, name: str) -> str:
    kind, colon, rest = name.partition(":")
    try:
        if not colon:
            if len(key := bytes.fromhex(name)) == PUBLIC_KEY_SIZE:
                return key.hex()
        elif kind in _HASHES:
            if len(fingerprint := bytes.fromhex(rest)) == FINGERPRINT_SIZE:
                return f"{kind}:{fingerprint.hex()}"
        elif kind == "address":
            return f"{kind}:{ipaddress.ip_address(rest)}"
    except ValueError:
        pass
    raise AccessError(
        f"{path}: {name[:80]!r} is not a principal that a rule can name",
        hint="write a peer id (64 hex digits), tls:HEX, token:HEX, address:HOST, or `*`",
    )


def _allowed(path: Path, name: str, names: Any) -> Allowed:
    if not isinstance(names, list) or not all(isinstance(member, str) for member in names):
        raise AccessError(f'{path}: {name[:80]!r} needs a list of names, or ["*"]')
    return None if EVERYTHING in names else frozenset(names)


logger = logging.getLogger(__name__)


class AccessWatch:
    """Holds the rules in force and reloads them. Without a file everybody may do everything.

    Raises `AccessError` if the file cannot be read at the start; later the old rules stay if a new file is
    wrong.
    """

    def __init__(self, path: Path | None, tables: Collection[str], interval_s: float) -> None:
        self._path = path
        self._tables = tables
        self._interval_s = interval_s
        self._asked = asyncio.Event()
        self._is_in_force = True
        # Take the signature before reading the file: a change in between counts as another change.
        self._seen = None if path is None else signature_of(path)
        self.current: AccessList = ALLOW_EVERYBODY if path is None else load_access_list(path, tables)

    def rules(self, table: str) -> AccessRules:
        """Return the current rules of one protocol."""
        return self.current.rules(table)

    @property
    def files(self) -> tuple[FollowedFile, ...]:
        """Return the state of the file, if there is one; from any thread."""
        return () if self._path is None else (FollowedFile(self._path, self._is_in_force),)

    def reload(self) -> None:
        """Reload the file now."""
        self._asked.set()

    async def run(self, changed: Callable[[AccessList], None]) -> None:
        """Reload the file whenever it has changed, forever; `changed` is called with the former rules."""
        path = self._path
        if path is None:
            return
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._asked.wait()
            signature = signature_of(path)
            if signature == self._seen and not self._asked.is_set():
                continue
            self._asked.clear()
            self._seen = signature
            try:
                access = await asyncio.to_thread(load_access_list, path, self._tables)
            except AccessError as error:
                self._is_in_force = False
                logger.error("the allow-list stays as it was: %s", error)
                continue
            former, self.current = self.current, access
            self._is_in_force = True
            changed(former)
            logger.info("the allow-list was read again: %s", access.summary())
