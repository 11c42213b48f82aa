"""Who may connect, and for what: an allow-list in a file, reloaded while the process runs.

The file is TOML or JSON and has a table for each protocol: a principal to a list of what it may have there,
or `["*"]` for everything; `*` as the principal is everybody else. Who is not listed is refused.

    [peers]
    2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96 = ["*"]
    "*" = ["schema_definition_v1"]

A principal is the hex of an Ed25519 key, `tls:` or `token:` with 64 hex digits, or `address:` with a host.
What is named in the lists is the protocol's own: schema ids in `peers` (p2panda), channel ids in `channels`
(SDS). `peers` must be there; whom it lets in may have everything of a protocol whose table is missing.
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
from culm_connectors.transport.interface import Refusal
from culm_connectors.transport.principal import FINGERPRINT_SIZE, Principal
from culm_models.keys import PUBLIC_KEY_SIZE

EVERYTHING = "*"
PEERS = "peers"
_MAX_FILE_BYTES = 16 * 1024 * 1024
_HASHES = ("tls", "token")

Allowed = frozenset[str] | None
"""What somebody may have: names of the protocol's own; None stands for everything, empty for nothing."""


class AccessError(ConnectorError):
    """The allow-list cannot be read, or says something that is no rule."""

    code: ClassVar[str] = "connector.access"


@dataclass(frozen=True, slots=True)
class Rules:
    """One table: what each principal may have, by its name, and everybody else."""

    principals: Mapping[str, Allowed]
    everybody_else: Allowed = frozenset()

    def of(self, name: str) -> Allowed:
        """What a principal may have."""
        return self.principals.get(name, self.everybody_else)

    def allows(self, name: str, what: str) -> bool:
        """Whether a principal may have this."""
        allowed = self.of(name)
        return allowed is None or what in allowed

    def judge(self, principal: Principal) -> Refusal | None:
        """Whether somebody may come in at all."""
        if self.of(principal.name) != frozenset():
            return None
        return Refusal("this key is not on the allow-list" if principal.key else "not on the allow-list")

    def summary(self) -> str:
        """Return how many principals are named, and what everybody else may have, in words."""
        others = self.everybody_else
        rest = "everything" if others is None else f"{len(others)} names" if others else "nothing"
        return f"{len(self.principals)} principals, {rest} for everybody else"

    def let_in(self) -> Rules:
        """Everything for whoever may come in by these rules."""
        return Rules(
            {name: allowed and None for name, allowed in self.principals.items()},
            self.everybody_else and None,
        )


ALL_FOR_EVERYBODY = Rules({}, None)


@dataclass(frozen=True, slots=True)
class AccessList:
    """The rules in force, a table a protocol."""

    tables: Mapping[str, Rules]
    otherwise: Rules = ALL_FOR_EVERYBODY
    """The rules of a protocol without a table of its own."""

    def rules(self, table: str) -> Rules:
        """The rules of one protocol."""
        return self.tables.get(table, self.otherwise)

    def summary(self) -> str:
        """Return the summary of each table, in words."""
        return "; ".join(f"{name}: {rules.summary()}" for name, rules in self.tables.items())


ALLOW_EVERYBODY = AccessList({})


def load_access_list(path: Path, tables: Collection[str]) -> AccessList:
    """Read an allow-list, which may have these tables beside `peers`.

    Raises AccessError that names the line of the file's table which is wrong.
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
    found = {name: _rules(path, name, table) for name, table in tree.items()}
    return AccessList(found, found[PEERS].let_in())


def _rules(path: Path, table: str, rows: Any) -> Rules:
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
    return Rules(principals, everybody_else)


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
        f"{path}: {name[:80]!r} is nobody that a rule can name",
        hint="write a peer id (64 hex digits), tls:HEX, token:HEX, address:HOST, or `*`",
    )


def _allowed(path: Path, name: str, names: Any) -> Allowed:
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise AccessError(f'{path}: {name[:80]!r} needs a list of names, or ["*"]')
    return None if EVERYTHING in names else frozenset(names)


logger = logging.getLogger(__name__)


class AccessWatch:
    """Holds the rules in force and reads them again. Without a file everybody may have everything.

    Raises AccessError where the file cannot be read at the start; later a wrong file leaves them as they are.
    """

    def __init__(self, path: Path | None, tables: Collection[str], interval_s: float) -> None:
        self._path = path
        self._tables = tables
        self._interval_s = interval_s
        self._asked = asyncio.Event()
        self.current: AccessList = ALLOW_EVERYBODY if path is None else load_access_list(path, tables)

    def rules(self, table: str) -> Rules:
        """The rules of one protocol as they are now."""
        return self.current.rules(table)

    def reload(self) -> None:
        """Read the file again now."""
        self._asked.set()

    async def run(self, changed: Callable[[AccessList], None]) -> None:
        """Read the file whenever it has changed, for ever; `changed` is called with the former rules."""
        path = self._path
        if path is None:
            return
        seen = _signature(path)
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._interval_s):
                    await self._asked.wait()
            found = _signature(path)
            if found == seen and not self._asked.is_set():
                continue
            self._asked.clear()
            seen = found
            try:
                access = await asyncio.to_thread(load_access_list, path, self._tables)
            except AccessError as error:
                logger.error("the allow-list stays as it was: %s", error)
                continue
            former, self.current = self.current, access
            changed(former)
            logger.info("the allow-list was read again: %s", access.summary())


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
