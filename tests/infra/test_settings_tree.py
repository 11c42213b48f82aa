"""Every setting is reachable from the settings file and exists; names that others rely on are kept."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

import culm_connectors
import culm_infra
import culm_topics
from culm_connectors.settings import ConnectorSettings
from culm_connectors.transport.libp2p.multiaddr import parse_multiaddr
from culm_infra.cli.connector import connector_settings
from culm_infra.cli.job import job_settings
from culm_infra.cli.root import NOUNS, app
from culm_infra.settings import CulmSettings, load, resolve_kafka
from culm_streaming.jobs import load_job
from culm_topics.catalogue import registry
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.topic_spec import MAX_COPIES
from tests.support.freeze import frozen, lists
from tests.support.process.argument_fuzz import command_of, commands, is_group

ROOT: Final = Path(__file__).parents[2]
PACKAGES: Final = ("models", "topics", "connectors", "streaming", "infra")
NODE: Final = "/ip4/10.0.0.9/udp/2022/quic-v1"


pytestmark = pytest.mark.usefixtures("no_settings_from_outside")

CONNECTOR: Final[dict[str, tuple[object, object]]] = {
    "directory": ("/srv/edge", Path("/srv/edge")),
    "listen": ("10.0.0.1:4455", ("10.0.0.1", 4455)),
    "dial": (["10.0.0.2:4455"], (("10.0.0.2", 4455),)),
    "listen_libp2p": ("10.0.0.1:2022", ("10.0.0.1", 2022)),
    "dial_libp2p": ([NODE], (parse_multiaddr(NODE),)),
    "allow_list": ("peers.toml", Path("peers.toml")),
    "reload_interval_s": (7.0, 7.0),
    "check_threads": (3, 3),
    "verify_entries_topic": (False, False),
    "serve_before_caught_up": (True, True),
    "map_size_bytes": (1 << 21, 1 << 21),
    "max_index_bytes": (1 << 22, 1 << 22),
    "max_bytes_per_author": (11, 11),
    "max_bytes_per_peer": (12, 12),
    "metrics_host": ("10.0.0.1", "10.0.0.1"),
    "metrics_port": (9100, 9100),
}
"""By the name of a connector's setting: how the settings file spells a value, and what the connector gets."""


@pytest.mark.parametrize("name", ConnectorSettings.model_fields)
def test_every_setting_of_a_connector_is_reachable(name: str) -> None:
    default = connector_settings(load())
    if isinstance(getattr(default, name), BaseModel):
        # A table: the tree holds the very same type, so all of it is reachable.
        section = CulmSettings.model_fields["connector"].annotation
        assert isinstance(section, type) and issubclass(section, BaseModel)
        table = section.model_fields[name].annotation
        assert table is ConnectorSettings.model_fields[name].annotation
        return
    spelled, expected = CONNECTOR[name]
    key = "dial" if name == "dial_libp2p" else name
    changed = connector_settings(load(connector={key: spelled}))
    assert getattr(changed, name) == expected != getattr(default, name)


def test_a_table_of_the_connector_arrives_as_it_was_written() -> None:
    changed = connector_settings(load(connector={"tcp": {"max_connections": 7}}))
    assert (changed.tcp.max_connections, changed.tcp.max_connections_per_address) == (7, 128)


KAFKA: Final[dict[str, tuple[str, object, object]]] = {
    "bootstrap": ("bootstrap", "kafka-9:9092", "kafka-9:9092"),
    "prefix": ("prefix", "other.", "other."),
    "options": ("kafka", {"client.id": "edge"}, {"client.id": "edge", "log_level": "2"}),
    "replication_factor": ("replication_factor", MAX_COPIES, MAX_COPIES),
    "min_insync_replicas": ("min_insync_replicas", MAX_COPIES, MAX_COPIES),
    "partitions": ("partitions", 33, 33),
    "topic_config": ("topic_config", {"logs": {"a": "b"}}, {"logs": {"a": "b"}}),
}


@pytest.mark.parametrize("name", KafkaSettings.model_fields)
def test_every_setting_of_kafka_is_reachable(name: str) -> None:
    key, value, expected = KAFKA[name]
    flags: dict[str, Any] = {"bootstrap": "kafka-1:9092"}
    default = resolve_kafka(load(**flags))
    changed = resolve_kafka(load(**flags | {key: value}))
    assert getattr(changed, name) == expected != getattr(default, name)


JOBS: Final[dict[str, dict[str, Any]]] = {
    "logs": {"verify": "chain", "max_offsets_per_trigger": 9, "shards": 5},
    "version-vectors": {"max_offsets_per_trigger": 9, "version_vectors": {"max_receipts_per_trigger": 8}},
    "blocks": {
        "max_offsets_per_trigger": 9,
        "blocks": {"max_receipts_per_trigger": 8},
        "lifts": ["xor64"],
    },
    "coverage": {
        "verify": "chain",
        "max_offsets_per_trigger": 9,
        "shards": 5,
        "coverage": {
            "max_fragments_per_trigger": 8,
            "max_holdings_per_trigger": 7,
            "max_payload_chunks_per_trigger": 6,
        },
    },
    "documents": {
        "max_offsets_per_trigger": 9,
        "shards": 5,
        "documents": {
            "blocks": 8,
            "max_value_bytes": 7,
            "max_record_bytes": 6,
            "max_waiting_logs": 4,
            "max_waiting_logs_per_author": 3,
            "max_waiting_bytes": 2,
            "max_waiting_bytes_per_log": 1,
        },
    },
    "sds": {"sds": {"max_offsets_per_trigger": 9, "interval_ms": 8, "cache_entries": 7}},
    "sds-index": {"sds": {"max_offsets_per_trigger": 9}},
    "chotki": {"max_offsets_per_trigger": 9},
    "dag": {
        "shards": 5,
        "dag": {"policy": "bearer", "max_offsets_per_trigger": 9, "max_chunks_per_trigger": 8},
    },
}
"""By the name of a job: flags with which every one of its settings has another value than by default."""
STATE_LAYOUT: Final = {"chotki": {"state"}}
"""Settings of a job that are bounds of the layout of its state, which programs choose, not operators."""


@pytest.mark.parametrize("job", [job.name for job in registry.JOBS])
def test_every_setting_of_a_job_is_reachable(job: str) -> None:
    default = job_settings(load(), (job,))[job]
    changed = job_settings(load(job=JOBS[job]), (job,))[job]
    assert is_dataclass(default)
    same = {
        field.name
        for field in fields(default)
        if getattr(default, field.name) == getattr(changed, field.name)
    }
    assert same == STATE_LAYOUT.get(job, set())
    assert default == load_job(job).settings(), "the tree's defaults are those of the job"


def _models_of_settings() -> Iterator[type[BaseModel]]:
    """Every pydantic model in a module that is called `settings` or ends with it, or with `_section`."""
    for package in (culm_connectors, culm_topics, culm_infra):
        (folder,) = package.__path__
        for path in sorted(Path(folder).rglob("*.py")):
            if path.stem.endswith(("settings", "_section")):
                name = ".".join((package.__name__, *path.relative_to(folder).with_suffix("").parts))
                for member in vars(import_module(name)).values():
                    if (
                        isinstance(member, type)
                        and issubclass(member, BaseModel)
                        and member.__module__ == name
                    ):
                        yield member


def _types(annotation: Any) -> Iterator[type]:
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        yield annotation
    for argument in typing.get_args(annotation):
        yield from _types(argument)


def _tree(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield from (base for base in model.__mro__ if issubclass(base, BaseModel))
    for field in model.model_fields.values():
        for type_ in _types(field.annotation):
            if issubclass(type_, BaseModel):
                yield from _tree(type_)


BUILT_FROM_THE_TREE: Final = {"ConnectorSettings", "DagFolderSettings"}


def test_every_model_of_settings_is_in_the_tree() -> None:
    inside = {model.__name__ for model in _tree(CulmSettings)}
    outside = {model.__name__ for model in _models_of_settings()} - inside
    assert outside == BUILT_FROM_THE_TREE


# What is named exists.


@cache
def _paths(model: type[BaseModel] = CulmSettings, above: str = "") -> frozenset[str]:
    """The dotted name of every setting and every table."""
    names: set[str] = set()
    for name, field in model.model_fields.items():
        names.add(above + name)
        for type_ in _types(field.annotation):
            if issubclass(type_, BaseModel):
                names |= _paths(type_, f"{above}{name}.")
    return frozenset(names)


_FREE: Final = ("kafka.", "topic_config.")
"""Tables in which any name may stand."""


def _exists(path: str) -> bool:
    return path in _paths() or path.startswith(_FREE)


def _documents() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def _python(*folders: str) -> Iterator[Path]:
    for folder in folders:
        yield from sorted((ROOT / folder).rglob("*.py"))


@cache
def _sources() -> tuple[str, ...]:
    """Every program of the packages: their hints, help, messages, docstrings."""
    return tuple(path.read_text() for path in _python(*PACKAGES))


def test_every_variable_that_is_named_exists() -> None:
    """One of the tree, or one that a program reads by its name."""
    texts = [*_sources(), *(path.read_text() for path in _documents())]
    named = {name for text in texts for name in re.findall(r"\bCULM_[A-Z0-9_]*[A-Z0-9]\b", text)}
    programs = [*_sources(), *(path.read_text() for path in _python("tests", "bench"))]
    read = {name for text in programs for name in re.findall(r"""["'](CULM_[A-Z0-9_]+)["']""", text)}
    assert len(named) > 20
    assert not {
        name for name in named - read if not _exists(name.removeprefix("CULM_").lower().replace("__", "."))
    }


_SECTION: Final = re.compile(r"\[((?:connector|job|peer|stack)(?:\.[a-z0-9_]+)*)\]")


def test_every_table_that_is_named_exists() -> None:
    named = {name for path in _documents() for name in _SECTION.findall(path.read_text())}
    named |= {name for text in _sources() for name in _SECTION.findall(text)}
    assert len(named) > 8
    assert not {name for name in named if not _exists(name)}


def _examples(text: str) -> Iterator[str]:
    """The parts of a settings file in a document: fenced, or indented by four spaces."""
    for block in re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        yield block
    for block in re.findall(r"(?:^    .*\n|^\n)+", text, re.MULTILINE):
        lines = [line.removeprefix("    ") for line in block.splitlines()]
        headers = [number for number, line in enumerate(lines) if line.startswith("[")]
        for first in headers:
            last = next((n for n in range(first, len(lines)) if not lines[n].strip()), len(lines))
            yield "\n".join(lines[first:last])


def _names(table: dict[str, Any], above: str = "") -> Iterator[str]:
    for name, value in table.items():
        yield above + name
        if isinstance(value, dict):
            yield from _names(value, f"{above}{name}.")


def test_every_example_of_a_settings_file_is_one() -> None:
    seen = 0
    for path in _documents():
        for text in _examples(path.read_text()):
            if not _SECTION.search(text):
                continue
            seen += 1
            table = tomllib.loads(text)
            unknown = [name for name in _names(table) if not _exists(name)]
            assert not unknown, f"{path.name}: {unknown}"
            load(**table)
    assert seen >= 4


def test_every_setting_that_the_operating_documents_name_is_reachable() -> None:
    """A name that some component has as a setting, and that is in backquotes, is a name in the tree."""
    ours = {name.rpartition(".")[2] for name in _paths()}
    of_components = {
        field
        for path in _python("connectors", "topics", "streaming", "infra")
        if path.stem.endswith(("settings", "_section"))
        for field in re.findall(r"^    ([a-z_]+): ", path.read_text(), re.MULTILINE)
    }
    for name in ("operating.md", "bamboo-edge.md", "dag-edge.md", "dag-http.md", "chotki.md", "sds.md"):
        text = (ROOT / "docs" / name).read_text()
        named = {
            word
            for code in re.findall(r"`([^`\n]+)`", text)
            for word in re.findall(r"[a-z]+(?:_[a-z0-9]+)+", code)
        }
        assert not (named & of_components) - ours, name


_CODE: Final = re.compile(r"`+(culm [^`\n]+)`+|^ *(?:\$ )?(culm [^\n]+)", re.MULTILINE)
_OPTION: Final = re.compile(r"(?<![\w-])--?[a-z][a-z0-9-]*")
_END_OF_COMMAND: Final = re.compile(r"\s(?:[|&;#>]|--(?:\s|$))|[,:;]\s|`")


def _lines() -> Iterator[tuple[str, str]]:
    """Calls of `culm` in documents, docstrings and messages, each with where it is."""
    texts = [(path.name, path.read_text()) for path in _documents()]
    texts += [("a program", text) for text in _sources()]
    for where, text in texts:
        for in_quotes, in_block in _CODE.findall(text):
            yield where, _END_OF_COMMAND.split(in_quotes or in_block, maxsplit=1)[0]


def test_every_command_and_every_option_that_is_named_exists() -> None:
    unknown, seen = [], 0
    for where, line in _lines():
        words = tuple(line.split()[1:])
        command = command_of(words)
        if command is None:
            names = tuple(itertools.takewhile(lambda word: re.fullmatch("[a-z0-9-]+", word), words))
            if names and not is_group(names) and names[0] in NOUNS:
                unknown.append(f"{where}: {line}")
            continue
        seen += 1
        unknown += [
            f"{where}: {option} in {line}"
            for option in _OPTION.findall(line)
            if option not in command.options
        ]
    assert seen > 150
    assert not unknown


def test_every_option_that_the_command_line_quotes_exists() -> None:
    every = frozenset[str]().union(*(command.options for command in commands()))
    texts = [path.read_text() for path in _python("infra/culm_infra/cli")]
    quoted = {option for text in texts for option in re.findall(r"`(--[a-z][a-z0-9-]*)[^`]*`", text)}
    assert len(quoted) > 5
    assert not quoted - every


def test_settings_show_prints_every_setting() -> None:
    shown = CliRunner().invoke(app, ["settings", "show", "--json"])
    assert shown.exit_code == 0
    printed = {json.loads(line)["setting"] for line in shown.stdout.splitlines()}
    tables = {name for name in _paths() if any(other.startswith(f"{name}.") for other in _paths())}
    unset = {"connector.dag.http"}
    missing = {
        name
        for name in _paths() - printed - tables
        if not name.startswith(tuple(f"{parent}." for parent in unset)) and not name.startswith(_FREE)
    }
    assert not missing


@pytest.mark.parametrize("name", lists.LISTS)
def test_the_list_is_the_accepted_one(name: str) -> None:
    frozen.assert_list(name, lists.LISTS[name]())


def test_no_code_of_an_error_goes_away_unseen() -> None:
    """New ones come every week, and nobody relies on them yet."""
    kept = frozen.kept_list(lists.CODES)
    frozen.assert_list(lists.CODES, [code for code in lists.codes() if code in kept])
