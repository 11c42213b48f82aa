"""`culm dag` as it is typed, and the trees that it puts and gets."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from culm_connectors.dag.store.folder import DagFolder
from culm_infra.cli.root import run
from culm_models.dag.blocks.cid import CAR, Cid, cid_of
from culm_models.dag.car import write_car


class Shell:
    """`culm dag … --dir` this folder `--json`; what was said as values."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self._capsys = capsys

    def __call__(self, *words: object, status: int = 0) -> list[dict[str, Any]]:
        # Of `get` the content is wanted, unless somebody says otherwise.
        flags = ("--json",) if words[0] != "get" and "--json" not in words else ()
        code = run(["dag", *map(str, words), *self._where(words), *flags])
        output = self._capsys.readouterr()
        assert code == status, output.err
        is_told = flags or "--json" in words
        return [json.loads(line) for line in output.out.splitlines()] if is_told else []

    def _where(self, words: tuple[object, ...]) -> tuple[str, ...]:
        return () if "--kafka" in words else ("--dir", str(self.folder))

    def refused(self, *words: object, status: int = 1) -> str:
        """Standard error of a command that must not succeed."""
        code = run(["dag", *map(str, words), *self._where(words)])
        output = self._capsys.readouterr()
        assert code == status, output.err
        assert "Traceback" not in output.err and "Errno" not in output.err
        return " ".join(output.err.split())

    def one(self, *words: object, status: int = 0) -> dict[str, Any]:
        (row,) = self(*words, status=status)
        return row

    def keep(self, root: Cid, blocks: dict[Cid, bytes]) -> None:
        """Put blocks into the folder as one shard, whatever they are."""
        data = write_car([root], blocks.items())
        folder = DagFolder(self.folder, create=True)
        folder.add_shard(bytes(32), cid_of(CAR, data), data)
        folder.commit()
        folder.close()


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, and every symbolic link with its target."""
    contents = {}
    for path in folder.rglob("*"):
        if path.is_symlink():
            contents[str(path.relative_to(folder))] = b"-> " + os.fsencode(os.readlink(path))  # noqa: PTH115
        elif path.is_file():
            contents[str(path.relative_to(folder))] = path.read_bytes()
    return contents
