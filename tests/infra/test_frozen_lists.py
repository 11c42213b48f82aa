"""Names that others rely on: a change of them is seen in the commit that makes it."""

from __future__ import annotations

import pytest

from tests.support import frozen
from tests.support.freeze import lists


@pytest.mark.parametrize("name", lists.LISTS)
def test_the_list_is_the_accepted_one(name: str) -> None:
    frozen.assert_list(name, lists.LISTS[name]())


def test_no_code_of_an_error_goes_away_unseen() -> None:
    """New ones come every week, and nobody relies on them yet."""
    kept = frozen.kept_list(lists.CODES)
    frozen.assert_list(lists.CODES, [code for code in lists.codes() if code in kept])
