"""What README says to type works as it stands, pasted at once."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from culm_infra.stack.ports import free_ports
from tests.support.process.own_machine import paste

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
EDGE = "127.0.0.1:4455"
LIMIT_SECONDS = 540


def section(heading: str) -> str:
    return README.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def block(heading: str, language: str = "sh", number: int = 0) -> str:
    """The block of code of this language and number under a heading."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", section(heading), re.DOTALL | re.MULTILINE)
    return str(blocks[number])


def test_the_readme_fits_on_a_page() -> None:
    assert len(README.splitlines()) <= 150


def test_sixty_seconds_without_kafka_can_be_pasted(tmp_path: Path) -> None:
    commands = block("Sixty seconds without Kafka")
    for address in ("127.0.0.1:4400", "127.0.0.1:4460"):
        assert commands.count(address) == 2
        commands = commands.replace(address, f"127.0.0.1:{free_ports(1)[0]}")
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    done = paste(f"trap 'kill $(jobs -p) 2>/dev/null' EXIT\n{commands}", tmp_path, tmp_path, LIMIT_SECONDS)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    assert "2 new entries" in output
    assert "the copy is identical" in done.stdout


@pytest.mark.kafka
@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.timeout(LIMIT_SECONDS + 60)
def test_what_the_readme_says_can_be_pasted(tmp_path: Path) -> None:
    commands = block("Five minutes with Kafka", number=1)
    assert commands.count(EDGE) == 2
    commands = commands.replace(EDGE, f"127.0.0.1:{free_ports(1)[0]}")
    ends = re.search(r"`(kill %1 %2); (culm stack down)` ends them", section("Five minutes with Kafka"))
    assert ends is not None
    (tmp_path / "consumer.py").write_text(block("Consume", "python"))
    script = f"""
trap 'kill $(jobs -p) 2>/dev/null; wait; culm stack down' EXIT
{commands}
echo CONSUMER
python -u consumer.py > consumed &
consumer=$!
# It goes on for ever; its first line is enough.
until [ -s consumed ]; do kill -0 $consumer; sleep 0.1; done
kill $consumer
wait $consumer || true
cat consumed
started=$(jobs -p)
{ends[1]}
for process in $started; do wait $process; done
trap - EXIT
{ends[2]}
echo DOWN
"""
    done = paste(script, tmp_path, tmp_path, LIMIT_SECONDS)
    output = done.stdout + done.stderr
    assert done.returncode == 0, output
    shown, consumed = done.stdout.split("CONSUMER\n")
    assert "The Reed" in shown, output
    assert "The Reed 40 ('name', 'seats')" in consumed, output
    assert "DOWN" in consumed, output
