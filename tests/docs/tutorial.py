"""Runs a tutorial: its blocks of commands and programs in order, in one shell and one empty folder.

Blocks of `sh` and `python` are run; each line of a block of `text` must appear in the output since the block
of `text` before it.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from culm_infra.stack.ports import free_ports

_BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_MARK = "=== text"


def blocks(page: Path) -> list[tuple[str, str]]:
    """Language and content of each block, with ports that are free here in place of the page's."""
    text = page.read_text(encoding="utf-8")
    ports = sorted(set(re.findall(r"127\.0\.0\.1:(\d+)", text)) | set(re.findall(r"-port (\d+)", text)))
    for port, free in zip(ports, free_ports(len(ports)) if ports else (), strict=True):
        text = text.replace(port, str(free))
    return _BLOCK.findall(text)


def run(page: Path, folder: Path, environment: dict[str, str], limit_s: float) -> None:
    """Run a tutorial. Raises `AssertionError` with its output if a command fails or a text is missing."""
    script = [
        "trap 'kill $(jobs -p) 2>/dev/null || true; wait; culm stack down >/dev/null 2>&1 || true' EXIT"
    ]
    expected = []
    for number, (language, content) in enumerate(blocks(page)):
        if language == "text":
            expected.append(content.splitlines())
            script.append(f"echo '{_MARK}'")
        elif language == "python":
            (folder / f"block{number}.py").write_text(content, encoding="utf-8")
            script.append(f"python block{number}.py 2>&1")
        else:
            script.append(content)
    done = subprocess.run(
        ["timeout", "--kill-after", "30", str(limit_s), "bash", "-eu", "-o", "pipefail"],
        # From its standard input, as a terminal gets it: a command that reads there would take what follows.
        input="\n".join((*script, "")),
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    shown = done.stdout.split(_MARK)
    assert len(shown) == len(expected) + 1, done.stdout
    for lines, output in zip(expected, shown, strict=False):
        for line in lines:
            assert line in output, f"{line!r} is not in:\n{output}"
