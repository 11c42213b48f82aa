"""Which schemas a connector serves, and when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from culm_connectors.index import LmdbLogStore
from culm_connectors.p2panda.interest import MAX_SCHEMA_ID_LENGTH, MAX_SCHEMAS, Interest
from tests.support.logs import OTHER_SCHEMA, SCHEMA


@pytest.fixture
def store(tmp_path: Path) -> Iterator[LmdbLogStore]:
    opened = LmdbLogStore(tmp_path)
    yield opened
    opened.close()


def test_a_schema_is_served_once_the_index_is_complete_for_it(store: LmdbLogStore) -> None:
    interest = Interest([SCHEMA], store)
    assert not interest.served
    assert interest.missing == {SCHEMA}
    assert not interest.keeps(SCHEMA)
    interest.cover([SCHEMA])
    assert (interest.served, interest.missing, interest.keeps(SCHEMA)) == ((SCHEMA,), frozenset(), True)


def test_peers_add_schemas_only_where_everything_is_served(store: LmdbLogStore) -> None:
    assert not Interest([SCHEMA], store).want([OTHER_SCHEMA])
    interest = Interest(["*"], store)
    assert interest.want([OTHER_SCHEMA])
    assert not interest.want([OTHER_SCHEMA])
    assert interest.missing == {OTHER_SCHEMA}


def test_what_was_complete_stays_so_over_a_restart(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    interest.want([SCHEMA])
    interest.cover([SCHEMA])
    assert Interest(["*"], store).served == (SCHEMA,)


def test_what_was_not_kept_up_for_a_while_is_read_back_again(store: LmdbLogStore) -> None:
    both = Interest([SCHEMA, OTHER_SCHEMA], store)
    both.cover([SCHEMA, OTHER_SCHEMA])
    assert Interest([SCHEMA], store).missing == frozenset()
    assert Interest([SCHEMA, OTHER_SCHEMA], store).missing == {OTHER_SCHEMA}


def test_peers_cannot_make_it_grow_without_bound(store: LmdbLogStore) -> None:
    interest = Interest(["*"], store)
    assert not interest.want(["x" * (MAX_SCHEMA_ID_LENGTH + 1)])
    names = [f"venue_0020{number:064x}" for number in range(MAX_SCHEMAS + 100)]
    assert interest.want(names[:1_000])
    assert interest.want(names[1_000:])
    assert not interest.want(names)
    assert len(interest.missing) == MAX_SCHEMAS
