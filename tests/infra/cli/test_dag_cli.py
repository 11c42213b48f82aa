"""`culm dag`: files in and out, published, delegated, revoked, dropped and exchanged, as typed."""

from __future__ import annotations

import json
import os
import random
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer

from culm_connectors.edge.keyfile import make_key
from culm_infra.cli.dag import app
from culm_infra.cli.dag.folder import complete_id
from culm_models.dag.blocks.cid import DAG_CBOR, DAG_PB, cid_of
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.car import write_car
from culm_models.dag.replica.codec import encode_append
from culm_models.dag.ucan.did_key import did_key, did_text
from tests.models.dag.recorded import recorded
from tests.support.connectors.channels import Certificates
from tests.support.dag.shell import Shell, contents

EMPTY = "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"
LARGE = random.Random(5).randbytes(1_500_000)


@pytest.fixture
def culm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(tmp_path / "dag", capsys)


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "index.html").write_bytes(b"<p>hello")
    (folder / "deep" / "large").write_bytes(LARGE)
    (folder / "deep" / "er" / "empty").write_bytes(b"")
    return folder


@contextmanager
def serving(shell: Shell, *flags: str) -> Iterator[dict[str, Any]]:
    """`culm dag serve` of a folder as a process; what it says of its address."""
    command = (sys.executable, "-c", "from culm_infra.cli import main; main()", "dag", "serve")
    arguments = (*command, "127.0.0.1:0", "--dir", str(shell.folder), "--json", *flags)
    server = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield json.loads(server.stdout.readline())
    finally:
        server.terminate()
        server.wait()


def test_a_directory_comes_back_byte_for_byte(culm: Shell, site: Path, tmp_path: Path) -> None:
    put = culm.one("put", site, "--shard-size", 500_000)
    assert put["shards"] > 3
    culm("get", put["cid"], "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(site)
    culm("get", f"{put['cid']}/deep/large", "-o", tmp_path / "large")
    assert (tmp_path / "large").read_bytes() == LARGE
    (standing,) = culm("status")
    assert (standing["space"], standing["heads"]) == (put["space"], [put["origin"]])
    assert standing["shards"] == put["shards"]
    culm("get", f"{put['cid']}/none", status=1)
    culm("get", put["cid"], status=2)
    listed = culm.one("get", put["cid"], "--json")
    assert (listed["cid"], listed["kind"]) == (put["cid"], "directory")
    assert {name for name, _ in listed["entries"]} == {path.name for path in site.iterdir()}
    fetched = culm.one("get", f"{put['cid']}/deep/large", "-o", tmp_path / "told", "--json")
    assert (fetched["kind"], fetched["bytes"]) == ("file", len(LARGE))
    assert (tmp_path / "told").read_bytes() == LARGE


def test_the_empty_file_has_its_known_cid_and_the_same_input_the_same_shards(
    culm: Shell, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert culm.one("put", site / "deep" / "er" / "empty")["cid"] == EMPTY
    here = Shell(tmp_path / "here", capsys).one("put", site)
    there = Shell(tmp_path / "there", capsys).one("put", site)
    assert here["space"] != there["space"]
    assert [here[name] for name in ("cid", "shard", "origin")] == [
        there[name] for name in ("cid", "shard", "origin")
    ]


def test_documents_are_put_as_they_are(culm: Shell, tmp_path: Path) -> None:
    record = tmp_path / "record"
    record.write_bytes(encode_dag_cbor({"list": [1, {"name": "x"}]}))
    put = culm.one("put", record, "--codec", "dag-cbor")
    assert put["cid"].startswith("bafyrei")
    culm("get", f"{put['cid']}/list/1/name", "-o", tmp_path / "name")
    assert (tmp_path / "name").read_bytes() == b'"x"'
    assert culm.one("get", f"{put['cid']}/list/1/name", "--json")["value"] == "x"
    record.write_bytes(b"\xff")
    culm("put", record, "--codec", "dag-cbor", status=1)
    raw = culm.one("put", record, "--codec", "raw")["cid"]
    assert raw.startswith("bafkrei")
    culm("put", tmp_path, "--codec", "raw", status=2)
    culm("put", record, "--codec", "other", status=2)
    culm("put", record, "--unixfs-profile", "other", status=2)


def test_what_is_published_is_resolved_and_revoked(culm: Shell, site: Path, tmp_path: Path) -> None:
    culm("resolve", status=1)
    first = culm.one("put", site / "index.html")
    published = culm.one("publish", first["cid"], "--shard", first["shard"])
    assert published["in_order"] and published["state"] == "complete"
    second = culm.one("put", site / "deep")
    two = culm.one("publish", second["cid"])
    resolved = culm.one("resolve")
    assert resolved["tip"]["publish"] == resolved["complete"]["publish"] == two["publish"]
    assert resolved["tip"]["prior"] == published["publish"]
    at = culm.one("resolve", f"{first['space']}@{published['publish']}")
    assert at["complete"]["link"] == first["cid"]
    culm("resolve", f"@{second['cid']}", status=2)

    # Somebody else publishes by a delegation, until it is revoked.
    other = make_key(tmp_path / "other")
    ucan = culm.one("delegate", did_text(did_key(other.public_key)))["ucan"]
    words = ("publish", first["cid"], "--id", first["space"], "--key", tmp_path / "other")
    three = culm.one(*words, "--origin", second["origin"])
    assert three["in_order"]
    four = culm.one("revoke", ucan)
    culm(*words, status=1)
    five = culm.one(*words, "--proof", ucan)
    states = {row["publish"]: row["state"] for row in culm("history")}
    assert states == {
        published["publish"]: "complete",
        two["publish"]: "complete",
        three["publish"]: "complete",
        four["publish"]: "complete",
        five["publish"]: "revoked",
    }
    assert culm.one("resolve")["complete"]["publish"] == four["publish"]

    # Who is let in again has another UCAN than the one that is revoked, which the same words made.
    again = culm.one("delegate", did_text(did_key(other.public_key)))["ucan"]
    assert again != ucan
    assert culm.one("delegate", did_text(did_key(other.public_key)))["ucan"] == again
    six = culm.one(*words)
    assert culm.one("resolve")["complete"]["publish"] == six["publish"]
    assert culm.one("publish", cid_of(DAG_PB, b"nowhere"))["state"] == "broken"


def test_a_revoked_delegation_is_reported_as_revoked(culm: Shell, site: Path, tmp_path: Path) -> None:
    put = culm.one("put", site)
    culm("publish", put["cid"])
    keys = {name: make_key(tmp_path / name).public_key.hex() for name in ("ann", "ben", "stranger")}
    by_ann = ("--id", put["space"], "--key", tmp_path / "ann")
    by_ben = ("--id", put["space"], "--key", tmp_path / "ben")
    ucan = culm.one("delegate", keys["ann"])["ucan"]
    culm("delegate", keys["ben"], *by_ann)
    assert culm.one("publish", put["cid"], *by_ben)["state"] == "complete"
    culm("revoke", ucan)
    order = culm("history")
    # Ben's own delegation was not revoked; what it builds on was.
    for key in (by_ann, by_ben):
        for words in (("publish", put["cid"]), ("delegate", keys["stranger"])):
            message = culm.refused(*words, *key)
            assert "is revoked" in message and "(dag.revoked)" in message
    message = culm.refused("publish", put["cid"], "--id", put["space"], "--key", tmp_path / "stranger")
    assert "no delegation to this key" in message and "(dag.root_issuer)" in message
    assert culm("history") == order
    culm("delegate", keys["ann"])
    assert culm.one("publish", put["cid"], *by_ann)["state"] == "complete"


def test_cids_are_typed_in_any_base(culm: Shell, tmp_path: Path) -> None:
    raw = tmp_path / "file"
    raw.write_bytes(b"")
    put = culm.one("put", raw)
    (row,) = [row for row in recorded("cid_bases") if row["cid"] == EMPTY]
    for text in row.values():
        assert culm.one("get", text, "--json")["cid"] == EMPTY
    published = culm.one("publish", row["base36"], "--shard", put["shard"].upper())
    assert published["state"] == "complete"
    culm("get", "k1", status=2)
    ucan = culm.one("delegate", "ab" * 32)["ucan"]
    assert culm.one("revoke", ucan.upper())["revokes"] == [ucan]
    assert not culm.one("drop", put["shard"].upper(), "--lift")["blocked"]


def test_who_has_no_delegation_is_refused(culm: Shell, site: Path, tmp_path: Path) -> None:
    put = culm.one("put", site)
    make_key(tmp_path / "stranger")
    culm("publish", put["cid"], "--id", put["space"], "--key", tmp_path / "stranger", status=1)
    assert culm("history") == []


def test_hidden_entries_are_put_where_that_is_said_and_names_that_are_no_text_are_refused(
    culm: Shell, site: Path
) -> None:
    shown = culm.one("put", site)
    (site / ".git").mkdir()
    (site / ".git" / "secret").write_text("secret")
    (site / "deep" / ".hidden").write_text("hidden")
    assert culm.one("put", site)["cid"] == shown["cid"]
    whole = culm.one("put", site, "--hidden")
    assert whole["cid"] != shown["cid"] and whole["bytes"] == shown["bytes"] + 12
    Path(os.fsdecode(os.fsencode(site) + b"/\xff")).write_text("x")
    culm("put", site, status=1)


def test_symbolic_links_are_stored_and_come_back(culm: Shell, site: Path, tmp_path: Path) -> None:
    plain = culm.one("put", site)
    (site / "to-file").symlink_to("deep/large")
    (site / "deep" / "to-folder").symlink_to("./er/")
    (site / "nowhere").symlink_to("gone")
    Path(os.fsdecode(os.fsencode(site) + b"/latin")).symlink_to(os.fsdecode(b"\xff"))
    (site / "deep" / ".hidden").symlink_to("er")
    put = culm.one("put", site)
    assert put["bytes"] == plain["bytes"]
    culm("get", put["cid"], "-o", tmp_path / "again")
    stored = contents(site)
    del stored["deep/.hidden"]
    assert contents(tmp_path / "again") == stored
    assert culm.one("put", tmp_path / "again")["cid"] == put["cid"]
    (site / "deep" / "out").symlink_to(tmp_path)
    away = culm.one("get", culm.one("put", site)["cid"], "-o", tmp_path / "third", "--json", status=3)
    assert [path for path, _ in away["left_out"]] == ["deep/out"]
    os.mkfifo(site / "fifo")
    culm("put", site, status=1)


def test_a_directory_over_the_threshold_is_sharded_and_comes_back(culm: Shell, tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for number in range(920):
        (site / f"{number:0250}").write_text(str(number))
    put = culm.one("put", site)
    # By boxo, with its own threshold of 262,144 bytes.
    assert put["cid"] == "bafybeifewtt3sj35fbh2lnzc4zqur6bitybaepp3fe7k5z4mbebq7boixm"
    culm("get", put["cid"], "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(site)
    culm("get", f"{put['cid']}/{7:0250}", "-o", tmp_path / "seven")
    assert (tmp_path / "seven").read_text() == "7"


def test_a_dropped_shard_is_missing_and_stays_away_until_that_is_lifted(culm: Shell, site: Path) -> None:
    put = culm.one("put", site)
    culm("publish", put["cid"])
    assert culm.one("drop", put["shard"]) == {"shard": put["shard"], "was_here": True, "blocked": True}
    (standing,) = culm("status", status=3)
    assert standing["missing_shards"] == [put["shard"]]
    assert culm.one("resolve", status=3)["tip"]["state"] == "pending"
    culm("put", site, status=1)
    assert not culm.one("drop", put["shard"], "--lift")["blocked"]
    culm("put", site)
    assert culm.one("resolve")["tip"]["state"] == "complete"


def test_a_dropped_space_loses_its_own_shards_and_brings_nothing(culm: Shell, site: Path) -> None:
    mine = culm.one("put", site)
    other = "ab" * 32
    beside = culm.one("put", site / "index.html", "--space", other)
    culm("put", site, "--space", other)
    space, *shards = culm("drop", "--space", other)
    assert space == {"space": other, "blocked": True}
    assert [(row["shard"], row["was_here"]) for row in shards] == [(beside["shard"], True)]
    assert culm.one("status", "--space", mine["space"])["missing_shards"] == []
    culm("put", site, "--space", other, status=1)
    with serving(culm, "--http", "--writable") as bound:
        head = encode_append([]).data
        body = write_car([cid_of(DAG_CBOR, head)], [(cid_of(DAG_CBOR, head), head)])
        results = httpx.post(f"{bound['url']}/spaces/{other}/nodes", content=body).json()["results"]
        assert [(answer["status"], answer["code"]) for answer in results] == [(2, "dag.blocked")]
    culm("drop", status=2)


def test_an_export_is_the_same_bytes_and_comes_back(
    culm: Shell, site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    put = culm.one("put", site)
    culm("publish", put["cid"])
    exported = culm.one("export", "-o", tmp_path / "one")
    again = Shell(tmp_path / "again", capsys)
    assert again.one("import", tmp_path / "one")["shards"] == exported["shards"] == put["shards"]
    assert again.one("import", tmp_path / "one") == {"blocks": 0, "shards": 0, "refused": []}
    assert again.one("export", "-o", tmp_path / "two") == exported
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    assert again("history", put["space"]) == culm("history")
    culm("export", "-o", tmp_path / "one", status=1)
    again("import", tmp_path / "one", "--proof-policy", "bearer", status=1)


def test_what_only_old_publishes_need_is_collected(culm: Shell, tmp_path: Path) -> None:
    shards = []
    for text in ("one", "two", "three"):
        (tmp_path / "file").write_text(text)
        put = culm.one("put", tmp_path / "file")
        culm("publish", put["cid"], "--origin", put["origin"])
        shards.append(put["shard"])
    # States only grow: the newest origin has the shards of those before.
    late = ("--now", 2**40)
    assert culm("collect", *late) == []
    (tmp_path / "file").write_text("beside")
    beside = culm.one("put", tmp_path / "file")["shard"]
    assert culm("collect") == []
    collected = culm("collect", *late)
    assert [(row["shard"], row["dropped"]) for row in collected] == [(beside, False)]
    assert culm("collect", *late) == collected
    assert {row["shard"] for row in culm("collect", *late, "--keep-publishes", 0)} == {beside, *shards}
    kept = f"{put['space']}=1"
    assert culm("collect", *late, "--keep-publishes", 0, "--keep-publishes-of", kept) == collected
    culm("collect", "--keep-publishes-of", "1=x", status=2)
    assert culm.one("collect", *late, "--apply")["dropped"]
    assert culm("collect", *late) == []
    assert culm.one("resolve")["tip"]["state"] == "complete"


def test_folders_exchange_and_the_heads_of_two_writers_are_joined(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine, theirs = Shell(tmp_path / "mine", capsys), Shell(tmp_path / "theirs", capsys)
    put = mine.one("put", site, "--shard-size", 500_000)
    mine("publish", put["cid"])
    theirs.one("put", site / "index.html", "--space", put["space"])
    with serving(mine) as bound:
        address = f"{bound['host']}:{bound['port']}"
        result = theirs.one("sync", address, "--space", put["space"], "--expect", bound["peer"])
        assert (result["shards"], result["acknowledged"]) == (put["shards"], 2)
        assert theirs.one("sync", address, "--space", put["space"])["received_bytes"] == 0
    assert theirs.one("resolve", put["space"])["complete"]["link"] == put["cid"]
    theirs("get", put["cid"], "-o", tmp_path / "again")
    assert contents(tmp_path / "again") == contents(site)
    assert mine.one("join", "--space", put["space"]) == theirs.one("join", "--space", put["space"])
    mine("join", status=1)


def test_a_folder_is_read_over_http_and_written_where_that_is_said(
    culm: Shell, site: Path, tmp_path: Path
) -> None:
    put = culm.one("put", site)
    culm("publish", put["cid"])
    nodes = f"/spaces/{put['space']}/nodes"
    with serving(culm, "--http") as bound:
        path = f"{bound['url']}/ipfs/{put['cid']}/index.html"
        assert httpx.get(path).content == (site / "index.html").read_bytes()
        assert httpx.post(bound["url"] + nodes, content=b"").status_code == 401
    page = "https://page.example"
    with serving(culm, "--http", "--writable", "--allow-origin", page) as bound:
        for origin, seen in ((page, page), ("https://other.example", None)):
            answer = httpx.get(bound["url"] + "/openapi.json", headers={"Origin": origin})
            assert answer.headers.get("access-control-allow-origin") == seen
        assert httpx.post(bound["url"] + nodes, content=b"no CAR").json()["code"] == "dag.car_header"
    made = Certificates(tmp_path)
    tls = ("--tls", str(made.server.certificate), str(made.server.private_key))
    with serving(culm, "--http", *tls) as bound:
        trusted = ssl.create_default_context(cafile=str(made.ca))
        trusted.check_hostname = False
        assert bound["url"].startswith("https://")
        assert httpx.get(bound["url"] + "/openapi.json", verify=trusted).status_code == 200
    slow = ("--limit", "burst_requests=3", "--limit", "requests_per_second=0.001")
    with serving(culm, "--http", *slow) as bound:
        statuses = [httpx.get(bound["url"] + "/openapi.json").status_code for _ in range(4)]
        assert statuses == [200, 200, 200, 429]
    for limit in ("max_reads", "max_reads=0", "max_reads=x", "burst=1", "=", ""):
        culm("serve", "127.0.0.1:0", "--http", "--limit", limit, status=2)
    culm("serve", "127.0.0.1:0", "--http", "--limit", "max_reads=1", "--limit", "max_reads=2", status=2)
    culm("serve", "127.0.0.1:0", "--limit", "max_reads=1", status=2)
    culm("serve", "127.0.0.1:0", *tls, status=2)
    culm("serve", "127.0.0.1:0", "--writable", status=2)
    culm("serve", "127.0.0.1:0", "--allow-origin", page, status=2)
    culm("serve", "127.0.0.1:0", "--http", "--allow-origin", "*", status=2)
    culm("serve", "127.0.0.1:0", "--http", "--space", put["space"], status=2)


def test_ids_are_completed(culm: Shell, site: Path) -> None:
    put = culm.one("put", site / "index.html")
    context = typer.Context(typer.main.get_group(app))
    context.params["folder"] = culm.folder
    assert complete_id(context, put["space"][:4]) == [put["space"]]
    assert complete_id(context, "zz") == []
