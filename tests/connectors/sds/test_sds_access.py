"""Who may join which channels: the allow-list's second table, at the connector and while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from culm_connectors.edge.access import ALLOW_EVERYBODY, AccessError, AccessRules, load_access_list
from culm_connectors.transport import CloseCode, ConnectError
from culm_connectors.transport.principal import Principal
from culm_models.sds.frames.messages import AskHead, Head, Join, Refused
from culm_topics.kafka.clients import KafkaSettings
from tests.support.connectors.edge import connector, running
from tests.support.connectors.quic import identity
from tests.support.sds.edge import remote

ANN, BEN, STRANGER = (identity(number).peer_id for number in (1, 2, 3))
WHERE = ("127.0.0.1", 1)


def rules(folder: Path, text: str, table: str = "channels") -> AccessRules:
    path = folder / "peers.toml"
    path.write_text(text)
    return load_access_list(path, ["peers", "channels"]).rules(table)


def lets_in(access: AccessRules, peer_id: bytes) -> bool:
    return access.judge(Principal.of_key(peer_id, WHERE)) is None


def test_without_a_table_of_channels_whoever_is_let_in_may_join_all(tmp_path: Path) -> None:
    access = rules(tmp_path, f'[peers]\n{ANN.hex()} = ["*"]\n')
    assert access.allows(ANN.hex(), "room") and not access.allows(BEN.hex(), "room")
    assert lets_in(access, ANN)
    assert not lets_in(access, BEN)
    assert ALLOW_EVERYBODY.rules("channels").allows(STRANGER.hex(), "room")


def test_the_table_of_channels_decides_about_channels_alone(tmp_path: Path) -> None:
    text = f'[peers]\n{BEN.hex()} = ["*"]\n[channels]\n{ANN.hex()} = ["room", "hall"]\n"*" = ["hall"]\n'
    access, of_peers = rules(tmp_path, text), rules(tmp_path, text, "peers")
    allowed = {
        (name, channel)
        for name, peer_id in (("ann", ANN), ("ben", BEN), ("stranger", STRANGER))
        for channel in ("room", "hall", "cellar")
        if access.allows(peer_id.hex(), channel)
    }
    assert allowed == {("ann", "room"), ("ann", "hall"), ("ben", "hall"), ("stranger", "hall")}
    assert not lets_in(of_peers, ANN) and lets_in(of_peers, BEN)
    assert lets_in(access, STRANGER)


def test_a_key_without_channels_is_not_let_in(tmp_path: Path) -> None:
    access = rules(tmp_path, f'[peers]\n"*" = ["*"]\n[channels]\n{ANN.hex()} = ["*"]\n')
    assert lets_in(access, ANN)
    assert not lets_in(access, BEN)


@pytest.mark.parametrize(
    "text",
    [
        "[channels]\n",
        "[peers]\n[channel]\n",
        '[peers]\n[channels]\nxyz = ["*"]\n',
        "peers = 1\n",
        "channels = 1\n",
    ],
)
def test_what_is_no_rule_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AccessError):
        rules(tmp_path, text)


@pytest.mark.kafka
async def test_a_connector_applies_the_rules_and_their_changes(tmp_path: Path, kafka: KafkaSettings) -> None:
    path = tmp_path / "peers.toml"
    both = f'[peers]\n[channels]\n{ANN.hex()} = ["room"]\n{BEN.hex()} = ["*"]\n'
    path.write_text(both)
    async with running(connector(tmp_path, kafka, allow_list=path, reload_interval_s=0.05)) as edge:
        assert edge.address is not None
        with pytest.raises(ConnectError):
            async with remote(edge.address, 3):
                pass
        async with remote(edge.address, 1) as ann, remote(edge.address, 2) as ben:
            await ann.joins("room", "ann")
            await ben.joins("cellar", "ben")
            await ann.say(Join("cellar", "spec", "ann"))
            (refused,) = await ann.hears(Refused)
            assert refused.code == "sds.join.refused"
            path.write_text(both.replace('"room"', '"hall"'))
            assert (await ann.closed()).code == CloseCode.REVOKED
            await ben.say(AskHead("cellar"))
            await ben.hears(Head, 2)
