"""A checkpoint in an object store: written through s3a, RocksDB's state with it, and continued from there."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from werkzeug.serving import WSGIRequestHandler, make_server

from culm_infra.stack import jars
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import produce_entries, read_logs
from tests.support.p2panda.logs import author, make_log

# 654 MB of jars are fetched.
pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.soak]

BUCKET = "culm-checkpoints"


class OneContinue(WSGIRequestHandler):
    """Werkzeug and the http.server below it both send 100 Continue: a client takes one for the answer."""

    def handle_expect_100(self) -> bool:
        """Leave it to Werkzeug."""
        return True


@pytest.fixture
def s3_endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real HTTP server that speaks S3, with an empty bucket."""
    import boto3
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app

    for name, value in (("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "test")):
        monkeypatch.setenv(name, value)
    server = make_server(
        "127.0.0.1",
        0,
        DomainDispatcherApplication(create_backend_app),
        threaded=True,
        request_handler=OneContinue,
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.server_port}"
    boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1").create_bucket(Bucket=BUCKET)
    yield endpoint
    server.shutdown()


def run_once(kafka: KafkaSettings, endpoint: str, folder: Path) -> None:
    options = {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    }
    arguments = [
        *("job", "run", "logs", "--once", "--bootstrap", kafka.bootstrap, "--prefix", kafka.prefix),
        *("--master", "local[2]", "--checkpoints", f"s3a://{BUCKET}/jobs", "--state-partitions", "1"),
        *("--shards", "1", "--quick-start"),
        *(part for name, text in options.items() for part in ("--spark-option", f"{name}={text}")),
    ]
    ended = subprocess.run(
        [sys.executable, "-m", "culm_infra", *arguments],
        env=os.environ | {"CULM_STACK__DIRECTORY": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.timeout(900)
def test_a_job_continues_from_its_checkpoint_in_an_object_store(
    kafka_bootstrap: str, topic_prefix: str, s3_endpoint: str, tmp_path: Path
) -> None:
    import boto3

    jars.ensure("s3")
    kafka = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix, partitions=1)
    admin.create(kafka)
    log = make_log(author("alice"), 0, 20)
    produce_entries(kafka, log[:12])
    run_once(kafka, s3_endpoint, tmp_path)
    objects = boto3.client("s3", endpoint_url=s3_endpoint, region_name="us-east-1").list_objects_v2(
        Bucket=BUCKET
    )
    names = [each["Key"] for each in objects["Contents"]]
    assert "jobs/logs/culm.json" in names
    assert any("/state/" in name for name in names)
    assert not list(tmp_path.rglob("offsets"))

    produce_entries(kafka, log[12:])
    run_once(kafka, s3_endpoint, tmp_path)
    (records,) = read_logs(kafka).values()
    assert [record.entry_hash for record in records] == [checked.hash for checked in log]
