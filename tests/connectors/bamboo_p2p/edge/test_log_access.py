"""Which logs somebody may have, by the allow-list and the rules of a file together."""

from __future__ import annotations

from pathlib import Path

from culm_connectors.bamboo_p2p.edge.access import TABLE, EdgePolicy, LogAccess
from culm_connectors.bamboo_p2p.edge.hooks import edge_budgets
from culm_connectors.bamboo_p2p.edge.settings import BambooEdgeSettings
from culm_connectors.bamboo_p2p.policy.document import FolderPolicy
from culm_connectors.edge.access import AccessWatch

ANN, BEN, CAT = (letter * 64 for letter in "abc")
LOG = (bytes.fromhex(ANN), 5)
OTHER = (bytes.fromhex(BEN), 5)


def policy(folder: Path, **tree: object) -> EdgePolicy:
    path = folder / "peers.toml"
    path.write_text(
        f'[peers]\n"*" = ["*"]\n'
        f'[logs]\n{ANN} = ["*"]\n{BEN} = ["read:{ANN}/5"]\n{CAT} = ["write:{CAT}", "{ANN}"]\n'
    )
    watch = AccessWatch(path, [TABLE], 1.0)
    return EdgePolicy.of(FolderPolicy.model_validate(tree), LogAccess(watch))


def test_a_name_allows_both_or_what_stands_before_it(tmp_path: Path) -> None:
    rules = policy(tmp_path)
    assert rules.rule_for(ANN).may_read(OTHER) and rules.rule_for(ANN).may_write(OTHER)
    assert rules.rule_for(BEN).may_read(LOG) and not rules.rule_for(BEN).may_write(LOG)
    assert not rules.rule_for(BEN).may_read(OTHER)
    assert rules.rule_for(CAT).may_read(LOG) and rules.rule_for(CAT).may_write(LOG)
    own = (bytes.fromhex(CAT), 0)
    assert rules.rule_for(CAT).may_write(own) and not rules.rule_for(CAT).may_read(own)
    assert not rules.rule_for("address:127.0.0.1").may_read(LOG)


def test_both_tables_have_to_allow_it(tmp_path: Path) -> None:
    rules = policy(tmp_path, default={"read": ["*/5"], "write": []})
    assert rules.rule_for(ANN).may_read(LOG) and not rules.rule_for(ANN).may_write(LOG)
    assert not rules.rule_for(CAT).may_read((bytes.fromhex(ANN), 6))


def test_a_principal_has_so_many_connections_and_its_data_waits_beyond_its_rate() -> None:
    settings = BambooEdgeSettings(max_connections_per_peer=2, bytes_per_second=1_000, burst_bytes=500)
    budgets, now_s = edge_budgets(settings), 1.0
    assert budgets.begin(ANN, now_s) and budgets.begin(ANN, now_s)
    assert not budgets.begin(ANN, now_s) and budgets.begin(BEN, now_s)
    ann, ben = budgets.of(ANN, now_s), budgets.of(BEN, now_s)
    assert ann.wait_s(now_s, 500) == 0
    assert ann.wait_s(now_s, 1_000) > 0.5 and ben.wait_s(now_s, 100) == 0
    budgets.end(ANN)
    assert budgets.begin(ANN, now_s)
