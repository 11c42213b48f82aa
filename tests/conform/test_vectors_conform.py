"""Vectors of other programs through lines: DAG replication, and conversations of set reconciliation.

What these requests answer otherwise, with wrong arguments for example, the transcripts of `golden` hold.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from culm_models.dag.blocks.cid import Cid
from culm_models.dag.blocks.dag_cbor import encode_dag_cbor
from culm_models.dag.blocks.dag_json import to_dag_json
from culm_models.dag.errors import DagJsonMalformed
from tests.models.dag.drawn_values import CIDS, VALUES
from tests.models.dag.recorded import entries, recorded
from tests.models.reconciliation import conversations

SMALL = [row for row in recorded("directories") if row.get("count", 0) < 1000]
"""The larger ones are tested without lines."""
MESSAGES = recorded("messages")


def each(rows: list[dict[str, Any]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("row", rows, ids=lambda row: row["name"])


@given(VALUES)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_dag_values_come_back(talk: Any, value: Any) -> None:
    data = encode_dag_cbor(value)
    decoded = talk.ok("cbor.decode", bytes=data.hex())
    try:
        spelled = to_dag_json(value)
    except DagJsonMalformed:
        assert "value" not in decoded
        return
    assert talk.ok("cbor.encode", value=decoded["value"]) == {"bytes": data.hex(), "cid": decoded["cid"]}
    assert decoded["value"] == spelled


@given(CIDS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
def test_cids_come_back_from_text_bytes_and_parts(talk: Any, cid: Cid) -> None:
    parsed = talk.ok("cid.parse", cid=cid.text)
    assert talk.ok("cid.parse", bytes=parsed["bytes"]) == parsed
    parts = {name: parsed[name] for name in ("version", "codec", "multihash_code", "digest")}
    assert talk.ok("cid.format", **parts) == {"cid": cid.text}


@each(recorded("nodes")["decode"])
def test_nodes_are_read_and_written_as_recorded(talk: Any, row: dict[str, Any]) -> None:
    if "reason" in row:
        assert talk.code("replica.decode", bytes=row["hex"]) == f"dag.{row['reason']}"
        return
    decoded = talk.ok("replica.decode", bytes=row["hex"])
    fields = {name: value for name, value in decoded.items() if name != "cid"}
    assert talk.ok("replica.encode", **fields) == {"bytes": row["hex"], "cid": row["cid"]}


@each(recorded("replicas"))
def test_stores_answer_as_recorded(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("replica.open", name="a")
    for step in row["steps"]:
        if "add" in step:
            do, arguments = "replica.add", {"bytes": step["add"]}
        elif "state" in step:
            do, arguments = "replica.state", {"root": step["state"]}
        else:
            do, arguments = "replica.join", {"heads": step["join"]}
        if "error" in step:
            assert talk.code(do, name="a", **arguments) == f"dag.{step['error']}"
            continue
        answer = talk.ok(do, name="a", **arguments)
        for name, value in step["ok"].items():
            wanted = [[cid, f"dag.{code}"] for cid, code in value] if name == "refused" else value
            assert answer[name] == wanted, (step, name)


@each(recorded("ucan")["issue"])
def test_ucans_are_issued_byte_for_byte(talk: Any, row: dict[str, Any]) -> None:
    arguments = {
        name: value for name, value in row.items() if name not in ("name", "bytes", "cid", "jwt", "error")
    }
    if "error" in row:
        assert talk.code("ucan.issue", **arguments) == f"dag.{row['error']}"
    else:
        assert talk.ok("ucan.issue", **arguments) == {name: row[name] for name in ("bytes", "cid", "jwt")}


@pytest.mark.parametrize("policy", ["bound", "bearer"])
@each(recorded("ucan")["verify"])
def test_ucans_are_verified_as_recorded(talk: Any, row: dict[str, Any], policy: str) -> None:
    blocks = [{"cid": block["cid"], "bytes": block["hex"]} for block in row["blocks"]]
    names = ("leaf", "jwt", "publish", "now", "services", "leeway", "legacy")
    arguments = {name: row[name] for name in names if name in row}
    arguments |= {"blocks": blocks, "subject": row["id"], "policy": policy}
    if row["expected"][policy] == "valid":
        assert talk.ok("ucan.verify", **arguments) == {"valid": True}
    else:
        assert talk.code("ucan.verify", **arguments) == f"dag.{row['reasons'][policy]}"


@each(recorded("order"))
def test_orders_are_the_recorded_ones(talk: Any, row: dict[str, Any]) -> None:
    state = {name: row[name] for name in ("heads", "order", "tip", "key", "held")}
    talk.ok("order.open", name="a")
    for step in row["steps"]:
        change = talk.ok("order.add", name="a", cid=step["cid"], prior=step["prior"])
        assert change == {name: step[name] for name in ("tip", "from", "changed", "held")}
    assert talk.ok("order.state", name="a") == state
    assert talk.ok("order.of", ops=[[step["cid"], step["prior"]] for step in row["steps"]]) == state


@each(MESSAGES["valid"])
def test_messages_are_encoded_and_decoded_as_recorded(talk: Any, row: dict[str, Any]) -> None:
    assert talk.ok("dag.message.encode", message=row["message"]) == {"bytes": row["bytes"]}
    decoded = talk.ok("dag.message.decode", bytes=row["bytes"] + row["bytes"][:-2])
    assert decoded == {"messages": [row["message"]], "used": len(row["bytes"]) // 2}


@each(MESSAGES["refused"])
def test_frames_are_refused_with_the_recorded_code(talk: Any, row: dict[str, Any]) -> None:
    assert talk.code("dag.message.decode", bytes=row["bytes"]) == f"dag.{row['reason']}"
    good = MESSAGES["valid"][0]["bytes"]
    assert talk.code("dag.message.decode", bytes=good + row["bytes"]) == f"dag.{row['reason']}"


@each(recorded("publish"))
def test_publish_machines_answer_as_recorded(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("publish.open", name="a", **row["open"])
    for step in row["steps"]:
        if "state" in step:
            want = dict(step["want"])
            if "refused" in want:
                want["refused"] = [[cid, f"dag.{code}"] for cid, code in want["refused"]]
            answer = talk.ok("publish.state", name="a", publish_id=step["state"])
            answer["next"] = talk.ok("publish.next", name="a", publish_id=step["state"])["prior"]
        else:
            want = step.get("ok") or {}
            arguments = {"cid": step["cid"], "bytes": step["hex"], "now": step["now"]}
            if "error" in step:
                assert talk.code("publish.add", name="a", **arguments) == f"dag.{step['error']}"
                continue
            answer = talk.ok("publish.add", name="a", **arguments)
        assert {name: answer[name] for name in want} == want, step


@each(recorded("one_cid"))
def test_nobody_makes_a_second_operation_of_an_authorised_one(talk: Any, row: dict[str, Any]) -> None:
    talk.ok("publish.open", name="a")

    def add(block: dict[str, str]) -> dict[str, Any]:
        return {"name": "a", "cid": block["cid"], "bytes": block["hex"], "now": row["now"]}

    for block in row["blocks"]:
        assert talk.ok("publish.add", **add(block))["kind"] == "ucan"
    assert talk.ok("publish.add", **add(row["base"]))["admission"] == "admitted"
    for variant in row["variants"]:
        assert talk.code("publish.add", **add(variant)) == f"dag.{variant['reason']}", variant["name"]
    state = talk.ok("publish.state", name="a", publish_id=row["id"])
    assert state["order"] == [row["base"]["cid"]]


@each(recorded("walks"))
def test_walks_reach_what_is_recorded(talk: Any, row: dict[str, Any]) -> None:
    arguments = {name: row[name] for name in ("link", "origin", "nodes", "shards")}
    assert talk.ok("dag.walk", **arguments) == row["want"]


@each(recorded("sharding"))
def test_shards_are_cut_as_recorded(talk: Any, row: dict[str, Any]) -> None:
    arguments = {name: row[name] for name in ("root", "blocks", "size", "per_append", "prior") if name in row}
    if "shards" in row:
        assert talk.ok("dag.shard", **arguments) == {
            name: row[name] for name in ("shards", "shard", "appends")
        }
    else:
        assert talk.code("dag.shard", **arguments) == f"dag.{row['error']}"


@each(recorded("unixfs")["add"])
def test_files_are_imported_block_for_block(talk: Any, row: dict[str, Any]) -> None:
    names = ("bytes", "files", "chunk_size", "width", "profile")
    imported = talk.ok("unixfs.add", **{name: row[name] for name in names if name in row})
    assert imported["root"] == row["root"]
    assert [block["cid"] for block in imported["blocks"]] == row["cids"]
    shards = talk.ok("dag.shard", root=imported["root"], blocks=imported["blocks"], size=1024)
    walked = talk.ok("dag.walk", link=imported["root"], shards=shards["shards"])
    assert (walked["have"], walked["complete"], walked["opaque_blocks"]) == (row["cids"], True, [])


@each(SMALL)
def test_directories_have_the_root_that_others_give_them(talk: Any, row: dict[str, Any]) -> None:
    names, links = entries(row)
    imported = talk.ok(
        "unixfs.add",
        files=[[name, name.encode().hex()] for name in names],
        links=[[name, target.encode().hex()] for name, target in links],
        profile=row["profile"],
        directory_max=row["directory_max"],
    )
    assert imported["root"] == row["root"]
    listed = talk.ok("dag.path", path=row["root"], blocks=imported["blocks"])["entries"]
    assert sorted(name for name, _ in listed) == sorted([*names, *(name for name, _ in links)])


@each(recorded("unixfs")["path"])
def test_paths_lead_where_they_are_recorded_to(talk: Any, row: dict[str, Any]) -> None:
    arguments = {
        "path": row["path"],
        "blocks": [{"cid": block["cid"], "bytes": block["hex"]} for block in row["blocks"]],
    }
    if "error" in row:
        assert talk.code("dag.path", **arguments) == f"dag.{row['error']}"
        return
    answer = talk.ok("dag.path", **arguments)
    assert {name: answer[name] for name in row["ok"]} == row["ok"]


def play(talk: Any, conversation: dict[str, Any], name: str) -> None:
    """One side's part, opposite the recorded messages of the other."""
    side = conversation[name]
    given_back = {key: side[key] for key in ("items", "payload_threshold", "range_division")}
    talk.ok("rbsr.open", name=name, monoid=conversation["monoid"], rule="upstream", **given_back)
    batches = conversation["batches"]
    if name == "a":
        assert talk.ok("rbsr.start", name=name)["send"] == batches[0][0]
    for number in range(1 if name == "b" else 2, len(batches), 2):
        before = [message for group in batches[number - 1] for message in group]
        for message, sent in zip(before, batches[number], strict=True):
            answer = talk.ok("rbsr.receive", name=name, message=message)
            assert answer["send"] == sent
    state = talk.ok("rbsr.state", name=name)
    assert state == {"items": side["final"], "inserted": side["inserted"], "done": True}
    talk.ok("rbsr.close", name=name)


@pytest.mark.parametrize("file", ["range-reconcile.jsonl", "naive.jsonl"])
def test_recorded_conversations_message_for_message(talk: Any, file: str) -> None:
    for conversation in conversations.read(file):
        play(talk, conversation, "a")
        play(talk, conversation, "b")
