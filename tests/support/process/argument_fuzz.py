"""Every command of `culm` with its options, arguments for it, right and wrong, and a run of one line.

Whatever a command would do beyond its arguments and the files that they name (call an address, listen, talk
to Kafka, start a process) ends in `Reached`: so a line takes milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, NoReturn

import pytest
from typer.main import get_command

from culm_infra.cli import root
from culm_infra.cli.root import app
from culm_models.errors import CulmError


class Command(NamedTuple):
    """One command: `words` is how it is called, `parameters` and `help` are those of Typer."""

    words: tuple[str, ...]
    parameters: tuple[Any, ...]
    help: str

    @property
    def arguments(self) -> tuple[Any, ...]:
        """Its positional arguments."""
        return tuple(parameter for parameter in self.parameters if parameter.param_type_name == "argument")

    @property
    def options(self) -> frozenset[str]:
        """Every spelling of every option."""
        return frozenset(
            spelling
            for parameter in self.parameters
            if parameter.param_type_name == "option"
            for spelling in (*parameter.opts, *parameter.secondary_opts)
        ) | {"--help", "-h"}


@cache
def commands() -> tuple[Command, ...]:
    """All of them, in the order of the help."""
    return tuple(_walk(get_command(app), ()))


def _walk(command: Any, words: tuple[str, ...]) -> Iterator[Command]:
    is_group = hasattr(command, "list_commands")
    if is_group:
        context = command.make_context(command.name, [], resilient_parsing=True)
        for name in command.list_commands(context):
            yield from _walk(command.get_command(context, name), (*words, name))
    if not is_group or command.invoke_without_command:
        yield Command(words, tuple(command.params), command.help or "")


def command_of(words: tuple[str, ...]) -> Command | None:
    """The command that a line begins with, the longest one; None if there is none."""
    fitting = [command for command in commands() if words[: len(command.words)] == command.words]
    return max(fitting, key=lambda command: len(command.words), default=None)


def is_group(words: tuple[str, ...]) -> bool:
    """Whether commands begin with these words."""
    return any(command.words[: len(words)] == words for command in commands())


KEY: Final = "5d" * 32
OPERATION: Final = "0020" + "ab" * 32
NUMBERS: Final = (
    "0",
    "-1",
    "1",
    "2147483648",
    "9223372036854775808",
    "18446744073709551616",
    f"1{'0' * 400}",
)
NOT_NUMBERS: Final = ("", "x", " 1", "1_0", "٣", "0x10", "1.5", "nan", "inf", "-inf", "1e400")
TEXTS: Final = (
    "",
    " ",
    "x",
    "-",
    "=",
    "a=b=c",
    "a:int=x",
    "[bold]",
    "[/]",
    "\n",
    "\t",
    "é",
    "\udcff",
    "\x1b[31m",
    "%s",
    "{}",
    "..",
    "../..",
    "/",
    "/dev/null",
    "/nowhere/at/all",
    "x" * 300,
    "x" * 5_000,
    KEY,
    KEY.upper(),
    f"{KEY}/0",
    f"{KEY}/18446744073709551616",
    KEY[:-1],
    "é" * 64,
    OPERATION,
    "127.0.0.1:1",
    "127.0.0.1:99999",
    "127.0.0.1:",
    ":1",
    "[::1]:1",
    "[::1:1",
    "xn--\udcff:1",
    f"{'a' * 70}.example:1",
    "tcp://127.0.0.1:1",
    "tcp://[::1:1",
    "tcp://127.0.0.1:99999",
    "quic://127.0.0.1:x",
    "tls://127.0.0.1:1/yamf",
    "http://127.0.0.1:1",
    "/ip4/127.0.0.1/udp/1/quic-v1",
    "did:key:z6Mk",
    "did:key:z6MkpTHR8VNsBxYAAWHut2Geadd9jSwuBV8xRoAnwWsdvktH",
    "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
    "schema_definition_v1",
    "blob_piece_v999",
    "none",
    "auto",
    "*",
    "beginning",
    "now",
    "2026-11-26",
)


class Reached(CulmError):
    """A command got past its arguments."""

    code: ClassVar[str] = "test.reached"


def _reach(*_: Any, **__: Any) -> NoReturn:
    raise Reached("the world")


async def _reach_soon(*_: Any, **__: Any) -> NoReturn:
    raise Reached("the world")


def close_the_world(patch: pytest.MonkeyPatch) -> None:
    """From now on every way out of this process leads to `Reached`."""
    patch.setattr("culm_infra.settings.resolve_kafka", _reach)
    patch.setattr("culm_infra.cli.demo.present._played", _reach)
    # It changes how this process logs, for good.
    patch.setattr("culm_infra.cli.kit.log_lines.set_up", lambda _: None)
    patch.setattr("culm_infra.cli.jars.fetch_with_progress", _reach)
    patch.setattr("time.sleep", _reach)
    for name in ("create_datagram_endpoint", "create_connection", "create_server", "getaddrinfo"):
        patch.setattr(asyncio.base_events.BaseEventLoop, name, _reach_soon)
    patch.setattr("subprocess.Popen", _reach)
    patch.setattr("urllib.request.urlopen", _reach)
    for name in ("connect", "bind"):
        patch.setattr(f"socket.socket.{name}", _reach)


def run(line: list[str], stdin: bytes = b"") -> tuple[int, str, str]:
    """The exit status of one line, with what it wrote. An exception is a traceback."""
    written = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(stream, "utf-8") for stream in written)
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), "utf-8"))
        status = root.run(line)
    out.flush()
    err.flush()
    # Exports and blobs are written to standard output as they are.
    return status, written[0].getvalue().decode(errors="replace"), written[1].getvalue().decode()


_BY_NAME: Final[Mapping[str, Sequence[str]]] = {
    "--allow-list": ("rules.toml",),
    "--as": ("v1", "json"),
    "--author": (KEY,),
    "--bootstrap": ("127.0.0.1:1",),
    "--can": ("clock/advance", "*"),
    "--channel": ("control", "data", "bymux"),
    "--class": ("1e-1",),
    "--codec": ("unixfs", "raw", "dag-cbor"),
    "--compat": ("default", "go"),
    "--datagram-size": ("auto", "1452"),
    "--dial": ("127.0.0.1:1", "/ip4/127.0.0.1/udp/1/quic-v1"),
    "--direction": ("pull", "push", "both"),
    "--document": ("OPERATION",),
    "--edge": ("127.0.0.1:1",),
    "--expect": (KEY,),
    "--flavour": ("yamf", "yasmf"),
    "--format": ("text", "json"),
    "--id": (KEY,),
    "--kafka-option": ("client.id=x",),
    "--keep-publishes-of": (f"{KEY}=2",),
    "--key": ("dags",),
    "--listen": ("127.0.0.1:0", "none"),
    "--log": (f"{KEY}/0", "0"),
    "--log-format": ("text", "json"),
    "--mode": ("r", "7"),
    "--sync-mode": ("auto", "ranges", "r"),
    "--origin": ("CID",),
    "--allow-origin": ("https://example.org",),
    "--peer": (KEY, "address:192.0.2.7"),
    "--policy": ("policy.toml",),
    "--previous": ("OPERATION",),
    "--output": ("new", "-"),
    "--principal": ("connector=User:edge",),
    "--profile": ("spec", "js"),
    "--program": ("connector",),
    "--proof": ("CID",),
    "--proof-policy": ("bound", "bearer"),
    "--property": ("log.retention.hours=48",),
    "--rename": ("a=b",),
    "--scene": ("live",),
    "--schema": ("blob_piece_v1",),
    "--set": ("spark", "broker"),
    "--shard": ("CID",),
    "--space": (KEY,),
    "--unixfs-profile": ("ipfs-cid-v1", "unixfs-v1-2025"),
    "--verify": ("full", "chain"),
    "action": ("create", "update", "delete"),
    "cids": ("CID",),
    "channel": ("general",),
    "class_": ("1e-1",),
    "document_id": ("OPERATION",),
    "field": ("data:bytes=00",),
    "fields": ("name:S", "score:N"),
    "file": ("file", "new", "history.jsonl"),
    "id": (KEY,),
    "link": ("CID",),
    "log": (KEY, f"{KEY}/0", "0"),
    "object_": ("1e-2",),
    "path": ("CID", "folder", "CID/file"),
    "peer": (KEY,),
    "peer_id": (KEY,),
    "public_key": (KEY,),
    "source": ("1e", "folder"),
    "target": ("new",),
    "to": (KEY,),
    "ucans": ("CID",),
    "url": ("tcp://127.0.0.1:1",),
    "urls": ("tcp://127.0.0.1:1",),
    "values": ("name=x", "name=y"),
    "which": ("all", "dag"),
}
"""Values that an argument of this name takes in some command; CID and OPERATION stand for what is held."""
NOTHING: Final[Mapping[str, str]] = {}
_ADDRESSES: Final = ("127.0.0.1:1", "tcp://127.0.0.1:1", "quic://127.0.0.1:1")
_FOLDERS: Final = {"bamboo": "logs", "dag": "dags", "p2panda": "peer"}
_NAMES: Final = ("new", "folder", "file", "empty", "folder/file", "logs", "dags", "peer")


def lines(command: Command, reals: Mapping[str, str], seed: int, count: int) -> Iterator[list[str]]:
    """Calls of a command: most of the arguments are right, and so far as chance has it all of them."""
    source = random.Random(f"{seed} {' '.join(command.words)}")
    for _ in range(count):
        wrong = source.choice((0.0, 0.15, 0.15, 0.5))
        yield [*command.words, *_arguments(command, reals, source, wrong)]


def large_numbers(command: Command, reals: Mapping[str, str]) -> Iterator[list[str]]:
    """Calls of a command with nothing beyond what it needs and one number, which no machine word holds."""
    for parameter in command.parameters:
        if parameter.min is not None or parameter.metavar == "SECONDS":
            for number in (*NUMBERS[-2:], "inf"):
                source = random.Random(0)
                forced = {parameter.opts[0]: number}
                yield [*command.words, *_arguments(command, reals, source, 0.0, forced)]


def _arguments(
    command: Command,
    reals: Mapping[str, str],
    source: random.Random,
    wrong: float,
    forced: Mapping[str, str] = NOTHING,
) -> Iterator[str]:
    def value(name: str) -> str:
        if name in forced:
            return forced[name]
        if source.random() < wrong:
            return source.choice(source.choice((NUMBERS, NOT_NUMBERS, TEXTS, TEXTS, _NAMES)))
        if name == "--dir":
            real = _FOLDERS.get(command.words[0], "new")
            return real if forced else source.choice((real, "new"))
        if name in ("where", "address", "addresses", "urls"):
            return source.choice(_ADDRESSES)
        right = source.choice(_BY_NAME.get(name, ("1", "2", "7", "x", "folder")))
        for word, real in reals.items():
            right = right.replace(word, real)
        return right

    for argument in command.arguments:
        is_there = argument.required or argument.name in forced or source.random() < 0.5
        times = source.randint(1, 2) if argument.nargs == -1 else is_there
        for _ in range(int(times) if source.random() >= wrong / 4 else 0):
            yield value(argument.name)
    options = [parameter for parameter in command.parameters if parameter.param_type_name == "option"]
    wanted = [option for option in options if option.required or option.opts[0] in ("--dir", *forced)]
    others = [option for option in options if option not in wanted]
    if not forced:
        wanted += source.sample(others, min(len(others), source.choice((0, 1, 2, 3))))
    for option in wanted:
        yield source.choice((*option.opts, *option.secondary_opts))
        if not option.is_flag:
            for _ in range(option.nargs):
                yield value(option.opts[0])


def furnish(folder: Path) -> dict[str, str]:
    """Files, and folders of several protocols, that arguments name; returns what is held in them.

    The working directory is `folder`.
    """
    (folder / "folder").mkdir()
    for name in ("file", "folder/file"):
        (folder / name).write_bytes(b"\x00\xffnot what you want\n")
    for name in ("empty", "rules.toml", "policy.toml"):
        (folder / name).write_bytes(b"")
    made = {}
    for word, line in {
        "LOG": "bamboo publish --dir logs hello",
        "CID": "dag put folder --dir dags",
        "PEER": "p2panda peer init --dir peer",
        "OPERATION": "p2panda peer publish create data:bytes=00 --schema blob_piece_v1 --dir peer",
    }.items():
        status, out, err = run(line.split())
        assert status == 0, err
        made[word] = out.split()[-1]
    _, history, _ = run(["p2panda", "peer", "export", "--dir", "peer"])
    (folder / "history.jsonl").write_text(history)
    return made
