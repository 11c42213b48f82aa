"""Who may connect, and for which schemas: an allow-list in a file, reloaded while the process runs.

The file is TOML or JSON with one table `peers`: peer id in hex (or `*` for everybody else) to a list of
schema ids (or `["*"]`). A key that is not listed is refused. The list is about the peer at the other end of
the connection; authors of entries need not be listed, their signatures speak for them.

    [peers]
    2f8e50c2ede6d936ecc3144187ff1c273808185cfbc5ff3d3748d1ff7353fc96 = ["*"]
    "*" = ["schema_definition_v1"]

A second table, `channels`, says in the same way who may join which channels of SDS. Without it every peer
that is let in may join every channel.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from culm_connectors.errors import ConnectorError
from culm_connectors.transport.interface import Address, Refusal
from culm_models.keys import PUBLIC_KEY_SIZE
from culm_models.p2panda.offers import is_marker

EVERYTHING = "*"
_MAX_FILE_BYTES = 16 * 1024 * 1024


class AccessError(ConnectorError):
    """The allow-list cannot be read, or says something that is no rule."""

    code: ClassVar[str] = "connector.access"


@dataclass(frozen=True, slots=True)
class AccessList:
    """The rules in force: peer id to schema ids; None stands for every schema.

    `channels`: peer id to channel ids likewise; None: there are no rules of their own for channels.
    """

    peers: Mapping[bytes, frozenset[str] | None]
    everybody_else: frozenset[str] | None = frozenset()
    channels: Mapping[bytes, frozenset[str] | None] | None = None
    channels_of_everybody_else: frozenset[str] | None = frozenset()

    def allows(self, peer_id: bytes) -> bool:
        """Whether a peer may connect at all."""
        return self.schemas_of(peer_id) != frozenset()

    def schemas_of(self, peer_id: bytes) -> frozenset[str] | None:
        """The schemas that a peer may replicate; None for every schema, empty for a stranger."""
        return self.peers.get(peer_id, self.everybody_else)

    def permitted(self, peer_id: bytes, schema_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the schemas that a peer may replicate, in their order; an offer is no schema and stays."""
        allowed = self.schemas_of(peer_id)
        if allowed is None:
            return tuple(schema_ids)
        return tuple(name for name in schema_ids if name in allowed or is_marker(name))

    def authorise(self, peer_id: bytes, address: Address) -> Refusal | None:
        """The transport's question: may this proven key stay?"""
        return None if self.allows(peer_id) else Refusal("this key is not on the allow-list")

    def allows_channel(self, peer_id: bytes, channel_id: str) -> bool:
        """Whether a peer may join a channel."""
        if self.channels is None:
            return self.allows(peer_id)
        allowed = self.channels.get(peer_id, self.channels_of_everybody_else)
        return allowed is None or channel_id in allowed

    def authorise_for_channels(self, peer_id: bytes, address: Address) -> Refusal | None:
        """The transport's question of a peer that speaks SDS."""
        if self.channels is None:
            return self.authorise(peer_id, address)
        if self.channels.get(peer_id, self.channels_of_everybody_else) != frozenset():
            return None
        return Refusal("this key is not on the allow-list of channels")


ALLOW_EVERYBODY = AccessList({}, None)


def load_access_list(path: Path) -> AccessList:
    """Read an allow-list.

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
    if not isinstance(tree, dict) or "peers" not in tree or not set(tree) <= {"peers", "channels"}:
        raise AccessError(f"{path} must hold a table, `peers`, and may hold another, `channels`")
    peers, everybody_else = _table(path, tree["peers"])
    if "channels" not in tree:
        return AccessList(peers, everybody_else)
    return AccessList(peers, everybody_else, *_table(path, tree["channels"]))


def _table(path: Path, table: Any) -> tuple[dict[bytes, frozenset[str] | None], frozenset[str] | None]:
    """What is said of each peer, and of everybody else."""
    if not isinstance(table, dict):
        raise AccessError(f"{path}: `peers` and `channels` are tables")
    peers: dict[bytes, frozenset[str] | None] = {}
    everybody_else: frozenset[str] | None = frozenset()
    for name, names in table.items():
        rule = _rule(path, name, names)
        if name == EVERYTHING:
            everybody_else = rule
        else:
            peers[_peer_id(path, name)] = rule
    return peers, everybody_else


def _peer_id(path: Path, name: str) -> bytes:
    try:
        peer_id = bytes.fromhex(name)
    except ValueError:
        peer_id = b""
    if len(peer_id) != PUBLIC_KEY_SIZE:
        raise AccessError(f"{path}: {name[:80]!r} is no peer id", hint="a peer id is 64 hex digits, or `*`")
    return peer_id


def _rule(path: Path, name: str, names: Any) -> frozenset[str] | None:
    if not isinstance(names, list) or not all(isinstance(one, str) for one in names):
        raise AccessError(f'{path}: {name[:80]!r} needs a list of schema or channel ids, or ["*"]')
    return None if EVERYTHING in names else frozenset(names)
