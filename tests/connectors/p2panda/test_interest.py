"""Which schemas a connector serves, and which of two connections it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from culm_connectors.logs.index import LmdbLogStore
from culm_connectors.p2panda.connections.duplicate_connections import supersedes
from culm_connectors.p2panda.interest import FORGOTTEN_AFTER_S, MAX_SCHEMA_ID_LENGTH, MAX_SCHEMAS, Interest
from culm_models.p2panda.operations.operation import peek
from tests.support.hostile.attacks import invented_schemas
from tests.support.p2panda.logs import OTHER_SCHEMA, SCHEMA, author, make_log

ANNA, BEN, MALLORY = (author(name).public_key for name in ("anna", "ben", "mallory"))
NOW_S = 1_000.0


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(peek, tmp_path)
    yield opened
    opened.close()


def test_a_schema_is_served_once_the_index_is_complete_for_it(store: LmdbLogStore) -> None:
    interest = Interest([SCHEMA], store)
    assert not interest.served
    assert interest.missing == {SCHEMA}
    assert not interest.keeps(SCHEMA)
    interest.mark_complete([SCHEMA])
    assert (interest.served, interest.missing, interest.keeps(SCHEMA)) == ((SCHEMA,), frozenset(), True)


def test_peers_add_schemas_only_where_everything_is_served(store: LmdbLogStore) -> None:
    assert not Interest([SCHEMA], store).want(ANNA, [OTHER_SCHEMA], NOW_S)
    interest = Interest(["*"], store)
    assert interest.want(ANNA, [OTHER_SCHEMA], NOW_S)
    assert not interest.want(ANNA, [OTHER_SCHEMA], NOW_S)
    assert interest.missing == {OTHER_SCHEMA}


def test_what_was_complete_and_has_logs_stays_so_over_a_restart(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    interest.want(ANNA, [SCHEMA, OTHER_SCHEMA], NOW_S)
    interest.mark_complete([SCHEMA, OTHER_SCHEMA])
    store.append(make_log(author("anna"), 0, 1))
    assert Interest(["*"], store).served == (SCHEMA,)


def test_what_was_not_kept_up_for_a_while_is_read_back_again(store: LmdbLogStore) -> None:
    both = Interest([SCHEMA, OTHER_SCHEMA], store)
    both.mark_complete([SCHEMA, OTHER_SCHEMA])
    assert Interest([SCHEMA], store).missing == frozenset()
    assert Interest([SCHEMA, OTHER_SCHEMA], store).missing == {OTHER_SCHEMA}


def test_one_peer_cannot_keep_others_from_having_a_schema_served(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    assert interest.want(MALLORY, invented_schemas(MAX_SCHEMAS), NOW_S)
    interest.mark_complete(interest.missing)
    assert interest.want(ANNA, [SCHEMA], NOW_S)
    assert interest.missing == {SCHEMA}
    interest.mark_complete([SCHEMA])
    assert SCHEMA in interest.served
    assert len(interest.served) == MAX_SCHEMAS
    assert interest.want(MALLORY, invented_schemas(MAX_SCHEMAS, "others"), NOW_S)
    assert SCHEMA in interest.served, "it had its share and more"


def test_an_index_full_of_invented_schemas_recovers(store: LmdbLogStore) -> None:
    former = Interest(["*"], store)
    former.want(MALLORY, invented_schemas(MAX_SCHEMAS), NOW_S)
    former.mark_complete(former.missing)
    interest = Interest(["*"], store)
    assert interest.served == ()
    assert interest.want(ANNA, [SCHEMA], NOW_S)
    assert interest.wanted == {SCHEMA}


def test_schemas_without_a_log_are_forgotten_some_time_after_the_last_who_announced_them(
    store: LmdbLogStore,
) -> None:
    interest = Interest(["*"], store)
    invented = invented_schemas(3)
    interest.want(ANNA, [SCHEMA, *invented], NOW_S)
    interest.want(BEN, invented[:1], NOW_S)
    interest.mark_complete(interest.missing)
    store.append(make_log(author("anna"), 0, 1))
    assert not interest.gone(ANNA, NOW_S), "it may come again"
    assert not interest.pass_time(NOW_S + FORGOTTEN_AFTER_S - 1)
    assert interest.pass_time(NOW_S + FORGOTTEN_AFTER_S)
    assert interest.served == tuple(sorted((SCHEMA, invented[0])))


def test_what_nobody_announces_makes_room_first_and_is_read_back_when_it_is_wanted_again(
    store: LmdbLogStore,
) -> None:
    interest = Interest(["*"], store)
    interest.want(ANNA, [SCHEMA], NOW_S)
    interest.mark_complete([SCHEMA])
    store.append(make_log(author("anna"), 0, 1))
    interest.gone(ANNA, NOW_S)
    interest.want(BEN, invented_schemas(MAX_SCHEMAS), NOW_S)
    assert not interest.keeps(SCHEMA)
    assert interest.want(ANNA, [SCHEMA], NOW_S)
    assert interest.missing >= {SCHEMA}


def test_those_who_were_turned_away_come_in_when_there_is_room(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    half = MAX_SCHEMAS // 2
    interest.want(ANNA, invented_schemas(half, "anna"), NOW_S)
    interest.want(BEN, invented_schemas(half, "ben"), NOW_S)
    assert not interest.want(MALLORY, [], NOW_S)
    interest.want(MALLORY, invented_schemas(MAX_SCHEMAS, "mallory"), NOW_S)
    charged = [sum(name.startswith(who) for name in interest.wanted) for who in ("anna", "ben", "mallory")]
    assert max(charged) - min(charged) <= 1
    assert interest.gone(ANNA, NOW_S)
    assert not any(name.startswith("anna") for name in interest.wanted)
    assert len(interest.wanted) == MAX_SCHEMAS


def test_long_schema_ids_take_more_places_and_too_long_ones_none(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    assert not interest.want(MALLORY, ["x" * (MAX_SCHEMA_ID_LENGTH + 1)], NOW_S)
    long = [f"x{number:0{MAX_SCHEMA_ID_LENGTH - 1}x}" for number in range(MAX_SCHEMAS)]
    assert interest.want(MALLORY, long, NOW_S)
    assert sum(map(len, interest.wanted)) <= 256 * 1024


LOW, HIGH = b"\x01" * 32, b"\x02" * 32


def connection(dialled: bool, peer_id: bytes, close_reason: object = None) -> Any:
    return SimpleNamespace(dialled=dialled, peer_id=peer_id, close_reason=close_reason)


@pytest.mark.parametrize(("at_low_first", "at_high_first"), tuple(product([True, False], repeat=2)))
def test_both_keep_the_one_that_the_lower_id_dialled(at_low_first: bool, at_high_first: bool) -> None:
    """The flags say whether an end hears of the connection from the lower id before the other one."""

    def kept(own: bytes, other: bytes, low_first: bool) -> bool:
        """Whether the end with this id keeps the connection that the lower id dialled."""
        from_low = connection(own == LOW, other)
        from_high = connection(own == HIGH, other)
        current, new = (from_low, from_high) if low_first else (from_high, from_low)
        return (new if supersedes(new, current, own) else current) is from_low

    assert kept(LOW, HIGH, at_low_first)
    assert kept(HIGH, LOW, at_high_first)


@pytest.mark.parametrize("dialled", [True, False])
def test_of_two_that_one_end_dialled_the_newer_is_kept(dialled: bool) -> None:
    assert supersedes(connection(dialled, HIGH), connection(dialled, HIGH), LOW)


def test_one_that_has_ended_is_superseded() -> None:
    assert supersedes(connection(False, HIGH), connection(True, HIGH, "ended"), LOW)
