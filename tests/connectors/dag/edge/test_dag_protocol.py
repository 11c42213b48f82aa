"""DAG replication in a connector: opened where an address is set, behind the validation rules, measured."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from culm_connectors.dag import protocol
from culm_connectors.dag.edge.settings import DagEdgeSettings
from culm_connectors.dag.errors import DagDoorError
from culm_connectors.dag.http.settings import DagHttpSettings
from culm_connectors.edge.access import AccessWatch
from culm_connectors.edge.doors import QuicDoor
from culm_connectors.edge.protocol import EdgeContext
from culm_connectors.settings import ConnectorSettings
from culm_models.dag.errors import RulesDiffer
from culm_models.dag.validation_rules import ValidationRules, require_same_rules
from culm_models.keys import KeyPair
from culm_models.p2panda.operations.operation import peek
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.dag.edge import KAFKA, ORIGIN, ListedTopics


class _State:
    partitions = 3


@pytest.fixture
def context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., EdgeContext]:
    """Of a connector whose Kafka has the validation rules that are the defaults."""

    def agree(kafka: KafkaSettings, own: ValidationRules) -> ValidationRules:
        require_same_rules(own, ValidationRules())
        return own

    monkeypatch.setattr(protocol, "ask_origin", lambda administration, names: ORIGIN)
    monkeypatch.setattr(admin, "list_topics", lambda kafka, specs: [_State() for _ in specs])
    monkeypatch.setattr(protocol, "agree_on_rules", agree)

    def make(**settings: Any) -> EdgeContext:
        producer: Any = ListedTopics()
        nobody: Any = None
        return EdgeContext(
            ConnectorSettings(directory=tmp_path, dag=DagEdgeSettings(**settings)),
            KAFKA,
            KeyPair.generate(b"an edge of DAGs"),
            bytes(32),
            nobody,
            producer,
            AccessWatch(None, ["spaces"], 1.0),
            peek,
            lambda what, done, total: None,
            lambda what: None,
            AsyncExitStack(),
        )

    return make


async def test_it_is_opened_with_a_door_and_measured(context: Callable[..., EdgeContext]) -> None:
    assert protocol.open_dag(context()) is None
    opening = protocol.open_dag(context(listen="127.0.0.1:4477"))
    assert opening is not None
    async with opening as opened:
        (door,) = opened.doors
        assert isinstance(door, QuicDoor)
        assert (door.name, door.address) == ("culm/dag/1", ("127.0.0.1", 4477))
        assert opened.why_not_ready() == ["starting"]
        assert {family.name for family in opened.metrics()} >= {"culm_dag_nodes", "culm_dag_shard_bytes"}
        assert opened.measured().staged == 0
        await opened.finish("the test is over")


async def test_nothing_is_opened_where_the_verdict_settings_differ(
    context: Callable[..., EdgeContext],
) -> None:
    opening = protocol.open_dag(context(listen="127.0.0.1:4477", policy="bearer"))
    assert opening is not None
    with pytest.raises(RulesDiffer, match="policy"):
        async with opening:
            pass


@pytest.mark.parametrize(
    "settings",
    [{"listen": "4477"}, {"listen": "host:70000"}, {"spaces": ("ab",)}, {"services": ("did:key:z6",)}],
)
def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        DagEdgeSettings(**settings)


async def test_the_http_door_is_named_by_its_extra_where_that_is_missing(
    context: Callable[..., EdgeContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "find_spec", lambda module: None)
    opening = protocol.open_dag(context(http=DagHttpSettings()))
    assert opening is not None
    with pytest.raises(DagDoorError, match="needs starlette"):
        async with opening:
            pass
