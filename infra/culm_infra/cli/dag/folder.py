"""Shared parts of the ``culm dag`` commands: the folder, the policy, and how CIDs, spaces and keys are
typed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import typer

from culm_infra.cli.kit import options
from culm_infra.cli.kit.data_folder import DataFolderFlags, directory_option, folder_on_the_line
from culm_models.dag.blocks.cid import Cid, cid_of_any_base
from culm_models.dag.errors import DagError
from culm_models.dag.ucan.did_key import did_from_text
from culm_models.dag.validation_rules import ValidationRules
from culm_models.keys import KeyPair

if TYPE_CHECKING:
    from culm_connectors.dag.settings import DagPeerSettings
    from culm_connectors.dag.store.folder import DagFolder
    from culm_connectors.dag.store.settings import DagFolderSettings
    from culm_connectors.transport.interface import Address

_NAME: Final = "dag"
"""Name of the default folder."""
_POLICIES: Final = ("bound", "bearer")

Folder = Annotated[Path | None, directory_option("CULM_DAG_DIR")]
Policy = Annotated[
    str,
    typer.Option(
        "--proof-policy",
        metavar="bound|bearer",
        envvar="CULM_DAG_POLICY",
        help="What a proof must name: bound (all that is published) or bearer (nothing).",
        autocompletion=options.words(*_POLICIES),
    ),
]
OnKafka = Annotated[
    bool,
    typer.Option("--kafka", help="Of a whole deployment: its topics, instead of --dir and --proof-policy."),
]
KeyFolder = Annotated[
    Path | None,
    typer.Option("--key", metavar="DIR", help="The folder whose private.key signs; by default --dir."),
]


def check_place(context: typer.Context, *, on_kafka: bool) -> None:
    """Raise `typer.BadParameter` if an option belongs to the other kind of store (folder or topics)."""
    if on_kafka:
        options.refuse(
            context, ["folder", "policy"], "--kafka is about a deployment, which has its own rules"
        )
    else:
        options.refuse(context, options.KAFKA_FLAGS, "goes with --kafka")


def complete_id(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the spaces of the folder that the command line names."""
    from culm_connectors.errors import ConnectorError

    try:
        with open_folder(folder_on_the_line(_NAME, ctx)) as folder:
            return options.words(*(space.hex() for space in folder.queries.spaces()))(incomplete)
    except ConnectorError:
        return []


Space = Annotated[
    str | None,
    typer.Option(
        "--space",
        metavar="KEY",
        help="The store: its public key in hex or as did:key; by default that of the own key.",
        autocompletion=complete_id,
    ),
]
IdArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="[ID]",
        help="A public key in hex or as did:key; by default the own one.",
        autocompletion=complete_id,
    ),
]
Proofs = Annotated[
    list[str] | None,
    typer.Option(
        "--proof",
        metavar="CID",
        help="A delegation that entitles this key; by default those to it that are here and not revoked.",
    ),
]
Expires = Annotated[
    int | None,
    typer.Option("--expires", metavar="SECONDS", min=1, help="From now on; by default it never expires."),
]


def folder_settings(policy: str) -> DagFolderSettings:
    """Return settings of a folder under a policy. Raises `typer.BadParameter`."""
    from culm_connectors.dag.store.settings import DagFolderSettings

    if policy not in _POLICIES:
        raise typer.BadParameter(f"{policy!r} is no policy: write {' or '.join(_POLICIES)}")
    return DagFolderSettings(verdict=ValidationRules(policy=policy))


@contextmanager
def open_folder(
    path: Path, settings: DagFolderSettings | None = None, *, create: bool = False
) -> Iterator[DagFolder]:
    """Open the folder; commit at the end unless something failed. Raises `DagFolderError`."""
    from culm_connectors.dag.store.folder import DagFolder

    folder = DagFolder(path, settings, create=create)
    try:
        yield folder
        folder.commit()
    finally:
        folder.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class DagFolderFlags(DataFolderFlags):
    """The folder of the DAGs and of the own key."""

    NAME: ClassVar[str] = _NAME

    folder: Folder = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatingFolderFlags(DagFolderFlags):
    """A folder of DAGs and the policy of its validation."""

    policy: Policy = "bound"

    def open(self, *, create: bool = False) -> AbstractContextManager[DagFolder]:
        """Open the folder; commit at the end unless something failed. Raises `DagFolderError`.

        With `create` a missing folder is created. Raises `typer.BadParameter` for an unknown policy.
        """
        settings = self.settings()
        return open_folder(self.made() if create else self.path, settings, create=create)

    def settings(self) -> DagFolderSettings:
        """Return the settings of the folder. Raises `typer.BadParameter` for an unknown policy."""
        return folder_settings(self.policy)

    def peer_settings(self) -> DagPeerSettings:
        """Return settings of a peer of this folder. Raises `typer.BadParameter`."""
        from culm_connectors.dag.settings import DagPeerSettings

        return DagPeerSettings(folder=self.settings())


def own_key(path: Path) -> KeyPair:
    """Return the key of a folder. Raises `KeyFileError`."""
    from culm_connectors.edge.keyfile import load_key

    return load_key(path, hint="`culm dag put` makes a key, or name the folder of one: --key")


def parse_key(text: str) -> bytes:
    """Parse a public key in hex or as did:key. Raises `typer.BadParameter`."""
    try:
        key = did_from_text(text)[2:] if text.startswith("did:") else bytes.fromhex(text)
    except (ValueError, DagError):
        key = b""
    if len(key) != 32:
        raise typer.BadParameter(f"{text!r} is no key: write 64 hex digits, or a did:key of Ed25519")
    return key


def space_of(text: str | None, path: Path) -> bytes:
    """Return the named space, or that of the own key."""
    return own_key(path).public_key if text is None else parse_key(text)


def parse_cid(text: str) -> Cid:
    """Parse a CID in any base. Raises `typer.BadParameter`."""
    try:
        return cid_of_any_base(text)
    except DagError as error:
        raise typer.BadParameter(str(error)) from None


def parse_path(text: str) -> tuple[Cid, list[str]]:
    """Return the root and the segments of `CID/segment/…`. Raises `typer.BadParameter`."""
    root, *segments = text.split("/")
    return parse_cid(root), [segment for segment in segments if segment]


def parse_place(text: str, schemes: tuple[str, ...] = ("quic",)) -> tuple[str | None, Address]:
    """Parse `[SCHEME://]HOST:PORT`. Returns the scheme, None if there is none, and the address.

    Raises `typer.BadParameter`.
    """
    from culm_connectors.settings import parse_address

    scheme, mark, place = text.rpartition("://")
    try:
        if mark and scheme not in schemes:
            raise ValueError
        return scheme or None, parse_address(place)
    except ValueError:
        forms = " or ".join(("HOST:PORT", *(f"{known}://HOST:PORT" for known in schemes)))
        raise typer.BadParameter(f"{text[:200]!r} is no address: write {forms}") from None


def expires_at(seconds: int | None) -> int | None:
    """Return the time (seconds since 1970) that is so many seconds from now."""
    return None if seconds is None else now_s() + seconds


def now_s() -> int:
    """Return seconds since 1970; used as the time of receipt of what is put here."""
    import time

    return int(time.time())


def count_of(number: int, singular: str, plural: str | None = None) -> str:
    """Return a number of things in words."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"
