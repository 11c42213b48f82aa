"""Images are built and run for real, on a read-only root beside a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_topics.kafka.clients import KafkaSettings
from tests.deploy.containerfiles import health_check
from tests.deploy.images import USER_ID, built_image, running
from tests.support.process.waiting import looks, output_of

pytestmark = [pytest.mark.deploy, pytest.mark.timeout(3_600)]


def test_a_connector_runs_from_its_image_until_sigterm(kafka: KafkaSettings, tmp_path: Path) -> None:
    image = built_image("connector")
    environment = {
        "CULM_BOOTSTRAP": kafka.bootstrap,
        "CULM_PREFIX": kafka.prefix,
        # The network is that of the tests: the ports of the image may be taken.
        "CULM_CONNECTOR__LISTEN": "127.0.0.1:0",
        "CULM_CONNECTOR__METRICS_PORT": "0",
    }
    with running(image, tmp_path, environment=environment) as container:
        check = health_check("connector.Containerfile")
        turns = looks("a ready connector", limit_s=180, progress=output_of(container.log), step_s=1)
        while container.execute(*check).returncode != 0 and container.process.poll() is None:
            next(turns)
        assert container.execute(*check).returncode == 0, container.log.read_text()
        assert container.execute("id", "-u").stdout.strip() == str(USER_ID)
        for place in ("/etc/culm/other", "/opt/culm/other", "/usr/other"):
            assert container.execute("touch", place).returncode != 0, place
        container.signal("TERM")
        assert container.process.wait(timeout=120) == 0, container.log.read_text()
    key = tmp_path / "volume" / "connector" / "private.key"
    assert (key.stat().st_uid, key.stat().st_mode & 0o077) == (USER_ID, 0)


@pytest.mark.soak
def test_the_jobs_run_from_their_image(kafka: KafkaSettings, tmp_path: Path) -> None:
    """The image has its jars and its Java: a job runs over what the topics have, and ends."""
    environment = {"CULM_BOOTSTRAP": kafka.bootstrap, "CULM_PREFIX": kafka.prefix}
    command = ("job", "run", "logs", "--once", "--quick-start")
    image = built_image("jobs")
    with running(image, tmp_path, command=command, environment=environment) as container:
        assert container.process.wait() == 0, container.log.read_text()
    assert (tmp_path / "volume" / "checkpoints").is_dir()
