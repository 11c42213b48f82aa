"""The Containerfiles of the images, as their instructions."""

from __future__ import annotations

import json
import shlex

from tests.deploy.tools import ROOT

FOLDER = ROOT / "infra" / "deploy" / "containers"
FILES = sorted(path.name for path in FOLDER.glob("*.Containerfile"))
Instruction = tuple[str, str]


def instructions(name: str) -> list[Instruction]:
    """Every instruction of a file with its arguments, in order."""
    lines = [line for line in (FOLDER / name).read_text().splitlines() if not line.startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines())
        if word
    ]


def last_stage(name: str) -> list[Instruction]:
    """The instructions of the image itself."""
    found = instructions(name)
    start = max(index for index, (word, _) in enumerate(found) if word == "FROM")
    return found[start:]


def value(name: str, word: str) -> str:
    """The arguments of the one instruction of this kind in the last stage."""
    (only,) = (rest for each, rest in last_stage(name) if each == word)
    return only


def environment(name: str) -> dict[str, str]:
    """The variables that the image sets."""
    pairs = [pair for word, rest in last_stage(name) if word == "ENV" for pair in shlex.split(rest)]
    return dict(pair.split("=", 1) for pair in pairs)


def health_check(name: str) -> list[str]:
    """The command of the image's health check."""
    options = value(name, "HEALTHCHECK")
    command: list[str] = json.loads(options[options.index("[") :])
    return command
