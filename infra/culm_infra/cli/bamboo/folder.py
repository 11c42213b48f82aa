"""Shared parts of the ``culm bamboo`` commands: the folder, the names of logs, the certificates of TLS."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final

import typer

from culm_infra.cli.kit.data_folder import DataFolderFlags, directory_option, folder_on_the_line
from culm_infra.cli.kit.log_names import parse_log_name
from culm_infra.cli.kit.options import words
from culm_models.bamboo.hashes import FLAVOURS, YAMF, HashFlavour
from culm_models.bamboo.log_store import LogKey
from culm_models.varu64 import MAX_VALUE

if TYPE_CHECKING:
    from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
    from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
    from culm_connectors.bamboo_p2p.store.folder_store import FolderStore
    from culm_connectors.url import Url

_NAME: Final = "bamboo"
"""Name of the default folder."""

Folder = Annotated[Path | None, directory_option("CULM_BAMBOO_DIR")]
Flavour = Annotated[
    str | None,
    typer.Option(
        "--flavour",
        help="Hashes of a new folder: yamf (BLAKE2b, Bamboo's own) or yasmf (BLAKE3).",
        autocompletion=words("yamf", "yasmf"),
    ),
]


def folder_of(context: typer.Context) -> Path:
    """Return the folder that a command line names, for completion."""
    return folder_on_the_line(_NAME, context)


def complete_log(ctx: typer.Context, incomplete: str) -> list[str]:
    """Complete the logs of the folder that the command line names."""
    from culm_connectors.errors import ConnectorError

    try:
        with open_folder(folder_of(ctx)) as store:
            return words(*map(log_name, store.logs))(incomplete)
    except ConnectorError:
        return []


OneLog = Annotated[
    str,
    typer.Option("--log", metavar="KEY/LOG_ID", help="The log; ID alone: own.", autocompletion=complete_log),
]
First = Annotated[int, typer.Option("--first", min=1, max=MAX_VALUE, help="The first entry of the range.")]
Last = Annotated[
    int | None, typer.Option("--last", min=1, max=MAX_VALUE, help="The last entry; by default the newest.")
]
LogOption = Annotated[
    list[str] | None,
    typer.Option(
        "--log",
        metavar="KEY/LOG_ID",
        help="A log: the author's key in hex, and its id; ID alone is one of the own logs. Repeatable.",
        autocompletion=complete_log,
    ),
]


Again = Annotated[
    bool, typer.Option("--again", help="Payloads that were dropped here, too; else they stay away.")
]


PolicyFile = Annotated[
    Path | None,
    typer.Option(
        "--policy",
        metavar="FILE",
        help="Who may read and write what, and what is followed; by default policy.toml of the folder.",
    ),
]


def read_rules(folder: Path, file: Path | None) -> FolderPolicy | None:
    """Read the rules from a file or from the folder; None if there are no rules. Raises `PolicyError`."""
    from culm_connectors.bamboo_p2p.policy.document import POLICY_FILE, read_policy

    path = file or folder / POLICY_FILE
    return read_policy(path) if file is not None or path.exists() else None


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFlags:
    """Certificates for tls:// addresses: the own one, and the authority that the other side's must have."""

    certificate: Annotated[
        Path | None, typer.Option("--tls-certificate", help="PEM: what is shown over tls://.")
    ] = None
    private_key: Annotated[Path | None, typer.Option("--tls-key", help="PEM: its private key.")] = None
    ca: Annotated[
        Path | None, typer.Option("--tls-ca", help="PEM: the authority of the other side; else the system's.")
    ] = None
    server_name: Annotated[
        str | None, typer.Option("--tls-name", help="What a server's certificate must be for.")
    ] = None

    def settings(self, urls: Sequence[Url], **fields: Any) -> BambooPeerSettings:
        """Return settings of a peer with these files for these addresses. Raises `typer.BadParameter`."""
        from culm_connectors.bamboo_p2p.settings import BambooPeerSettings
        from culm_connectors.tls_files import TlsFiles

        flags = (self.certificate, self.private_key, self.ca, self.server_name)
        if any(flag is not None for flag in flags) and all(url.scheme != "tls" for url in urls):
            raise typer.BadParameter("a certificate is for tls://, and no address uses that")
        if (self.certificate is None) != (self.private_key is None):
            raise typer.BadParameter("a certificate goes with its private key", param_hint="--tls-key")
        files = TlsFiles(
            certificate=self.certificate,
            private_key=self.private_key,
            ca=self.ca,
            server_name=self.server_name,
        )
        return BambooPeerSettings(tls=files, **fields)


def log_name(log: LogKey) -> str:
    """Return the name of a log as people type it: KEY/LOG_ID."""
    from culm_connectors.bamboo_p2p.policy.enforcement import log_name as named

    return named(log)


def parse_log(text: str, folder: Path) -> LogKey:
    """Parse the name of a log. Raises `typer.BadParameter`; `KeyFileError` if there is no own key."""
    key, log_id = parse_log_name(text)
    if key is None:
        from culm_connectors.edge.keyfile import load_key

        hint = "name a log of another author as KEY/LOG_ID, or publish first, which creates a key"
        key = load_key(folder, hint=hint).public_key
    return key, log_id


def check_logs(names: list[str] | None) -> None:
    """Raise `typer.BadParameter` unless each name is that of a log. Runs before anything else is done."""
    for name in names or ():
        parse_log_name(name)


def check_range(first: int, last: int | None) -> None:
    """Raise `typer.BadParameter` if a range of entries ends before its start."""
    if last is not None and last < first:
        raise typer.BadParameter(f"the range ends at {last}, before its start {first}", param_hint="--last")


def chosen_logs(names: list[str] | None, store: FolderStore) -> list[LogKey]:
    """Return the named logs; without names, all logs that the folder holds."""
    return [parse_log(name, store.folder) for name in names] if names else store.logs


def parse_flavour(name: str | None) -> HashFlavour | None:
    """Return the flavour of this name. Raises `typer.BadParameter`."""
    if name is None:
        return None
    if name not in FLAVOURS:
        raise typer.BadParameter(f"{name!r} is no flavour: write {' or '.join(FLAVOURS)}")
    return FLAVOURS[name]


def made_flavour(folder: Path, name: str | None) -> HashFlavour | None:
    """Return the flavour to open a folder with; YAMF for a new folder if none is named."""
    from culm_connectors.bamboo_p2p.store.tables import DATABASE_FILE

    return parse_flavour(name) or (None if (folder / DATABASE_FILE).exists() else YAMF)


@contextmanager
def open_folder(folder: Path, flavour: HashFlavour | None = None) -> Iterator[FolderStore]:
    """Open the store of a folder. Raises `FolderError`."""
    from culm_connectors.bamboo_p2p.store.folder_store import FolderStore

    with closing(FolderStore(folder, flavour)) as store:
        yield store


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFolderFlags(DataFolderFlags):
    """The folder of the logs and of the own key."""

    NAME: ClassVar[str] = _NAME

    folder: Folder = None

    def open(self) -> AbstractContextManager[FolderStore]:
        """Open the store of the folder. Raises `FolderError` if it holds no logs."""
        return open_folder(self.path)

    def create(self, flavour: str | None) -> AbstractContextManager[FolderStore]:
        """Open the store; a missing folder is created. Raises `FolderError`, `typer.BadParameter`."""
        parse_flavour(flavour)
        path = self.made()
        return open_folder(path, made_flavour(path, flavour))


def parse_address(text: str) -> Url:
    """Parse an address; one without a scheme is TCP's. Raises `typer.BadParameter`."""
    from culm_connectors.url import parse_url

    try:
        return parse_url(text, default="tcp")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


ADDRESS: Final = "[SCHEME://]HOST:PORT"
complete_address = words("tcp://", "tls://", "quic://")
