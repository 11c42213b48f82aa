"""One record decides for a deployment: who differs does not start, and of two that race both see one win."""

from __future__ import annotations

import threading
from importlib.resources import files

import pycddl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.bounds import DagBounds
from culm_models.dag.errors import RulesDiffer, RulesMalformed, RulesUnsupported
from culm_models.dag.validation_rules import ValidationRules
from culm_topics.dag.records import VERDICT_KEY
from culm_topics.dag.validation_rules import SETTINGS_TOPIC, agree_on_rules, read_rules, rules_in_force
from culm_topics.errors import TopicMissing
from culm_topics.kafka import admin
from culm_topics.kafka.clients import KafkaSettings
from tests.support.kafka.topic_io import produce, read_all

BOUND, BEARER = ValidationRules(), ValidationRules(policy="bearer", leeway=60)
TOMBSTONE = (VERDICT_KEY, b"")
SAID = (VERDICT_KEY, BOUND.encode())
OTHER = (VERDICT_KEY, BEARER.encode())


def test_the_record_is_as_its_cddl_says() -> None:
    schema = pycddl.Schema(files("culm_topics").joinpath("dag/cddl/dag-settings.cddl").read_text())
    schema.validate_cbor(BOUND.encode())
    schema.validate_cbor(ValidationRules("bearer", True, (b"\xed\x01" + bytes(32),), 5).encode())


@pytest.mark.parametrize(
    ("records", "standing"),
    [
        ([], None),
        ([SAID], BOUND),
        ([SAID, OTHER, OTHER], BOUND),
        ([SAID, TOMBSTONE], None),
        ([SAID, TOMBSTONE, OTHER, SAID], BEARER),
        ([TOMBSTONE, OTHER], BEARER),
        ([(b"", b"junk"), (b"other", OTHER[1]), SAID], BOUND),
    ],
)
def test_the_first_record_behind_the_last_tombstone_counts(
    records: list[tuple[bytes, bytes]], standing: ValidationRules | None
) -> None:
    assert rules_in_force(records) == standing


@given(st.lists(st.sampled_from([SAID, OTHER, TOMBSTONE, (b"", b"")]), max_size=9))
def test_what_comes_later_changes_nothing_but_by_a_tombstone(records: list[tuple[bytes, bytes]]) -> None:
    if (standing := rules_in_force(records)) is not None:
        assert rules_in_force([*records, OTHER, SAID]) == standing


def test_a_record_that_is_none_lets_nobody_start() -> None:
    with pytest.raises(RulesMalformed):
        rules_in_force([(VERDICT_KEY, b"\xa0"), SAID])


@pytest.mark.kafka
def test_the_first_process_publishes_and_one_that_differs_is_told_the_field(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    with pytest.raises(TopicMissing):
        agree_on_rules(settings, BOUND)
    admin.create(settings)
    assert read_rules(settings) is None
    assert agree_on_rules(settings, BOUND) == agree_on_rules(settings, BOUND) == BOUND
    with pytest.raises(RulesDiffer, match="policy is bearer here and bound there; leeway is 60 here"):
        agree_on_rules(settings, BEARER)
    with pytest.raises(RulesDiffer, match=r"bounds\.forks is 9 here"):
        agree_on_rules(settings, ValidationRules(bounds=DagBounds(forks=9)))
    with pytest.raises(RulesUnsupported):
        agree_on_rules(settings, ValidationRules(hashes=(0, 0x99)))
    assert read_all(settings, SETTINGS_TOPIC) == [SAID]
    produce(settings, SETTINGS_TOPIC, [(VERDICT_KEY, None)])
    assert agree_on_rules(settings, BEARER) == BEARER


@pytest.mark.kafka
def test_of_processes_that_publish_at_once_those_of_one_record_start(
    kafka_bootstrap: str, topic_prefix: str
) -> None:
    settings = KafkaSettings(bootstrap=kafka_bootstrap, prefix=topic_prefix)
    admin.create(settings)
    started: list[ValidationRules] = []
    refused: list[ValidationRules] = []
    gate = threading.Barrier(6)

    def process(own: ValidationRules) -> None:
        gate.wait()
        try:
            started.append(agree_on_rules(settings, own))
        except RulesDiffer:
            refused.append(own)

    threads = [threading.Thread(target=process, args=([BOUND, BEARER][number % 2],)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(started), len(refused)) == (3, 3)
    assert set(started) == {read_rules(settings)}
