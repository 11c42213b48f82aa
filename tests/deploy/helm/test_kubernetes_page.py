"""The commands of docs/deploy/kubernetes.md do what the page says, as far as no cluster is needed."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.deploy.command_lines import assert_culm_accepts, culm_commands
from tests.deploy.helm.charts import CHART, helm
from tests.deploy.tools import ROOT

PAGE = (ROOT / "docs" / "deploy" / "kubernetes.md").read_text()
BLOCKS = [re.sub(r"(?m)^ {4}", "", block) for block in re.findall(r"(?ms)^ *```sh\n(.*?)^ *```", PAGE)]


def _lines(program: str) -> Iterator[list[str]]:
    for block in BLOCKS:
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words[:1] == [program]:
                yield words[1:]


def test_culm_has_every_command_of_the_page() -> None:
    # What runs in a pod follows two dashes.
    texts = [block.replace(" -- culm ", "\nculm ") for block in BLOCKS]
    commands = [command for text in texts for command in culm_commands(text)]
    assert len(commands) >= 8
    for command in commands:
        assert_culm_accepts(command)


@pytest.mark.deploy
@pytest.mark.timeout(1_200)
def test_helm_renders_what_the_page_installs() -> None:
    production = str(CHART / "values-production.yaml")
    lines = list(_lines("helm"))
    assert len(lines) >= 4
    for verb, *words in lines:
        assert verb in {"install", "upgrade", "template"}
        given = [word for word in words if word not in {">", "rendered.yaml", "--reuse-values"}]
        given = [production if word == "my-values.yaml" else word for word in given]
        if "--values" not in given:  # an upgrade has the values of the installation
            given += ["--values", production]
        done = helm("template", *given)
        assert done.returncode == 0, done.stderr
        assert any(document for document in yaml.safe_load_all(done.stdout))


def test_keys_are_created_as_the_page_says(tmp_path: Path) -> None:
    """The loop runs as it stands on the page, and the Secret takes the files that it creates."""
    (block,) = (block for block in BLOCKS if "culm-connector-keys" in block)
    loop, *secret = block.splitlines()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CULM_")}
    done = subprocess.run(
        ["/bin/sh", "-ec", f'culm() {{ {sys.executable} -m culm_infra "$@"; }}\n{loop}'],
        cwd=tmp_path,
        env={**environment, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    peer_ids = done.stdout.split()
    assert len(set(peer_ids)) == 3
    for pod, file in re.findall(r"--from-file=(\S+)=(\S+)", "\n".join(secret)):
        assert re.fullmatch(r"culm-connector-[0-2]", pod)
        assert len(bytes.fromhex((tmp_path / file).read_text())) == 32
