"""`culm dag … --kafka`: the DAGs of a whole deployment, out of its topics and into empty ones, as typed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from culm_models.dag.blocks.cid import cid_from_text
from culm_topics.dag.records import decode_blocked
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from culm_topics.readers.partitions import read_to_end
from tests.support.dag.shell import Shell, contents

pytestmark = pytest.mark.kafka
LATE = ("--now", 2**40)


class Deployment:
    """`culm dag … --kafka` against fresh topics."""

    def __init__(self, shell: Shell, bootstrap: str, prefix: str) -> None:
        self.kafka = KafkaSettings(bootstrap=bootstrap, prefix=prefix, partitions=2)
        admin.create(self.kafka)
        self._shell = shell
        self._flags = ("--kafka", "--bootstrap", bootstrap, "--prefix", prefix)

    def __call__(self, *words: object, status: int = 0) -> list[dict[str, Any]]:
        return self._shell(*words, *self._flags, status=status)

    def one(self, *words: object) -> dict[str, Any]:
        (row,) = self(*words)
        return row


def put(shell: Shell, file: Path, text: str, *flags: object) -> dict[str, Any]:
    file.write_text(text)
    return shell.one("put", file, *flags)


def test_an_export_goes_into_empty_topics_and_comes_out_of_them_byte_for_byte(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka_bootstrap: str, topic_prefix: str
) -> None:
    shell = Shell(tmp_path / "dag", capsys)
    deployment = Deployment(shell, kafka_bootstrap, topic_prefix)
    mine = put(shell, tmp_path / "file", "mine" * 400_000, "--shard-size", 1_000_000)
    shell("publish", mine["cid"])
    ucan = shell.one("delegate", "cd" * 32)["ucan"]
    shell("revoke", ucan)
    put(shell, tmp_path / "file", "beside", "--space", "ab" * 32)
    exported = shell.one("export", "-o", tmp_path / "first")
    for again in range(2):
        imported = deployment.one("import", tmp_path / "first")
        assert (imported["shards"], imported["refused"]) == (exported["shards"], [])
        assert deployment.one("export", "-o", tmp_path / f"again-{again}") == exported
        assert contents(tmp_path / f"again-{again}") == contents(tmp_path / "first")
    other = Shell(tmp_path / "other", capsys)
    other("put", tmp_path / "file", "--proof-policy", "bearer")
    other("export", "-o", tmp_path / "bearer", "--proof-policy", "bearer")
    deployment("import", tmp_path / "bearer", status=1)


def test_what_is_dropped_from_the_topics_is_gone_and_blocked_and_what_is_collected_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kafka_bootstrap: str, topic_prefix: str
) -> None:
    shell = Shell(tmp_path / "dag", capsys)
    deployment = Deployment(shell, kafka_bootstrap, topic_prefix)
    # It comes before every other: what two spaces have is written under it.
    file, other = tmp_path / "file", "00" * 31 + "01"
    shards = []
    for text in ("one", "two"):
        made = put(shell, file, text)
        shell("publish", made["cid"], "--origin", made["origin"])
        shards.append(made["shard"])
    beside = put(shell, file, "beside")["shard"]
    own = put(shell, file, "own", "--space", other)["shard"]
    put(shell, file, "two", "--space", other)
    shell("export", "-o", tmp_path / "export")
    deployment("import", tmp_path / "export")

    assert deployment("collect") == []
    assert [row["shard"] for row in deployment("collect", *LATE)] == [beside]
    assert deployment.one("collect", *LATE, "--apply")["dropped"]
    assert deployment("collect", *LATE) == []

    space, dropped = deployment("drop", "--space", other, "--reason", "unwanted")
    assert space == {"space": other, "blocked": True}
    assert dropped == {"shard": own, "was_here": True, "blocked": False}
    assert deployment.one("drop", shards[0])["was_here"]
    assert not deployment.one("drop", shards[0])["was_here"]
    # What the blocked space had with another one is still here.
    assert deployment.one("export", "-o", tmp_path / "after")["shards"] == 1
    assert (tmp_path / "after" / "shards" / f"{shards[1]}.car").exists()
    assert not deployment.one("drop", shards[0], "--lift")["blocked"]
    blocked = {
        what: None if record is None else record.reason
        for what, record in (
            decode_blocked(message.key, message.value or None)
            for message in read_to_end(deployment.kafka, "dag.blocked")
        )
    }
    assert blocked == {bytes.fromhex(other): "unwanted", cid_from_text(shards[0]): None}
