"""Check of the files and folders that the settings name, without starting anything."""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel

from culm_infra.protocols import SETTINGS_FILES
from culm_infra.settings.findings import Origins, WrongSetting, dotted, origin_of
from culm_infra.settings.loading import examine
from culm_infra.settings.toml_lines import KeyPath
from culm_infra.settings.tree import CulmSettings
from culm_models.errors import CulmError

_FOLDERS: Final = frozenset({"directory", "debug_qlog_directory"})
_WRITTEN_FILES: Final = frozenset({"debug_key_log"})
_PAIRS: Final = (("certificate", "private_key"), ("tls_certificate", "tls_key"))
_FILES_OF_KAFKA: Final = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")


def check(config: Path | None = None) -> tuple[Path, list[WrongSetting]]:
    """Return the settings file and everything that is wrong with the settings: names, values, files.

    Raises `SettingsError` if the file cannot be read at all.
    """
    loaded = examine(config)
    findings = list(loaded.findings)
    if loaded.settings is not None:
        findings += _wrong_files(loaded.settings, loaded.origins)
    return loaded.file, findings


def _wrong_files(settings: CulmSettings, origins: Origins) -> Iterator[WrongSetting]:
    for path, file in _paths(settings, ()):
        problem = _problem(str(path[-1]), file)
        if problem is not None:
            yield _finding(path, problem, origins)
    for name in _FILES_OF_KAFKA:
        if name in settings.kafka and (problem := _unreadable(Path(settings.kafka[name]))) is not None:
            yield _finding(("kafka", name), problem, origins)
    for path, files in _pairs(settings, ()):
        problem = _wrong_pair(*files)
        if problem is not None:
            yield _finding(path, problem, origins)
    for path, document, read in _documents(settings):
        if document is not None and _unreadable(document) is None:
            try:
                read(document)
            except CulmError as error:
                yield _finding(path, str(error), origins)


def _documents(settings: CulmSettings) -> Iterator[tuple[KeyPath, Path | None, Callable[[Path], object]]]:
    """Return the files that a program reads at its start, each with its reader."""
    from culm_connectors.protocols import load

    yield ("connector", "allow_list"), settings.connector.allow_list, _read_allow_list
    for name, reader in SETTINGS_FILES.items():
        yield tuple(name.split(".")), attrgetter(name)(settings), load(reader)


def _finding(path: KeyPath, problem: str, origins: Origins) -> WrongSetting:
    return WrongSetting(origin_of(path, origins), dotted(path), problem)


def _paths(table: BaseModel, above: KeyPath) -> Iterator[tuple[KeyPath, Path]]:
    for name, value in table:
        if isinstance(value, Path):
            yield (*above, name), value
        elif isinstance(value, BaseModel):
            yield from _paths(value, (*above, name))


def _pairs(table: BaseModel, above: KeyPath) -> Iterator[tuple[KeyPath, tuple[Path, Path]]]:
    values: Mapping[str, Any] = dict(table)
    for certificate_name, key_name in _PAIRS:
        certificate, key = values.get(certificate_name), values.get(key_name)
        if isinstance(certificate, Path) and isinstance(key, Path):
            yield (*above, certificate_name), (certificate, key)
    for name, value in values.items():
        if isinstance(value, BaseModel):
            yield from _pairs(value, (*above, name))


def _problem(name: str, path: Path) -> str | None:
    if name in _FOLDERS:
        if _exists(path) and not path.is_dir():
            return f"{path} is not a folder"
        return _not_writable(path)
    if name in _WRITTEN_FILES:
        return f"{path} is a folder" if _exists(path) and path.is_dir() else _not_writable(path)
    return _unreadable(path)


def _not_writable(path: Path) -> str | None:
    """Check the nearest part of a path that exists: the rest of it is created."""
    existing = next(each for each in (path.absolute(), *path.absolute().parents) if _exists(each))
    if not os.access(existing, os.W_OK):
        return f"{existing} is not writable"
    return None


def _exists(path: Path) -> bool:
    """Return whether a path exists; False for one that the system refuses, too."""
    try:
        return path.exists()
    except OSError:
        return False


def _unreadable(path: Path) -> str | None:
    try:
        if not path.exists():
            return f"the file {path} does not exist"
    except OSError as error:
        return f"the file {path} cannot be read: {error.strerror}"
    if not path.is_file():
        return f"{path} is not a file"
    return None if os.access(path, os.R_OK) else f"the file {path} is not readable"


def _wrong_pair(certificate: Path, key: Path) -> str | None:
    if _unreadable(certificate) or _unreadable(key):
        return None
    try:
        # An empty password, so that nobody is asked for one on the terminal.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) and error.reason else "not PEM"
        words = reason.lower().replace("_", " ")
        return f"{certificate} and {key} are not a certificate with its private key: {words}"
    return None


def _read_allow_list(file: Path) -> None:
    from culm_connectors.edge.access import load_access_list
    from culm_connectors.protocols import PROTOCOLS

    load_access_list(file, [protocol.access_table for protocol in PROTOCOLS])
