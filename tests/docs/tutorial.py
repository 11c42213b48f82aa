"""Runs a tutorial: its blocks of commands and programs in order, in one shell and one empty folder.

Blocks of `sh` and `python` are run; each line of a block of `text` must appear in the output since the block
of `text` before it.
"""

from __future__ import annotations

import re
from pathlib import Path

from culm_infra.stack.ports import free_ports
from tests.support.process.own_machine import paste

_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "=== text"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and content of each block, with ports that are free here in place of the page's."""
    text = page.read_text(encoding="utf-8")
    ports = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text)) | set(re.findall(r"-port (\d+)", text)))
    for port, free in zip(ports, free_ports(len(ports)) if ports else (), strict=True):
        text = text.replace(port, str(free))
    return _BLOCK.findall(text)


def run(page: Path, folder: Path, home: Path, limit_s: float) -> None:
    """Run a tutorial in a folder, with the data of `culm` below `home`.

    Raises `AssertionError` with its output if a command fails or a text is missing.
    """
    script = [
        "exec 2>&1",
        "trap 'kill $(jobs -p) 2>/dev/null || true; wait; culm stack down >/dev/null 2>&1 || true' EXIT",
    ]
    expected = []
    for number, (language, content) in enumerate(blocks(page)):
        if language == "text":
            expected.append(content.splitlines())
            script.append(f"echo '{_MARK}'")
        elif language == "python":
            (folder / f"block{number}.py").write_text(content, encoding="utf-8")
            script.append(f"python block{number}.py")
        else:
            script.append(content)
    done = paste("\n".join((*script, "")), folder, home, limit_s)
    assert done.returncode == 0, done.stdout
    shown = done.stdout.split(_MARK)
    assert len(shown) == len(expected) + 1, done.stdout
    for lines, output in zip(expected, shown, strict=False):
        for line in lines:
            assert line in output, f"{line!r} is not in:\n{output}"
