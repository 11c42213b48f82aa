import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.bamboo import hashes as yasmf
from culm_models.p2panda.operations import identifiers

operation_ids = st.binary(max_size=8).map(yasmf.hash_bytes)
ONE, TWO = sorted((yasmf.hash_bytes(b"one"), yasmf.hash_bytes(b"two")))


@given(st.lists(operation_ids, min_size=1, max_size=6))
def test_a_view_id_is_sorted_and_survives_its_text(ids: list[bytes]) -> None:
    view = identifiers.view_id(ids)
    assert view == tuple(sorted(set(ids)))
    assert identifiers.parse_view_id("_".join(map(bytes.hex, view))) == view
    identifiers.check_view_id(view)


@pytest.mark.parametrize(
    "view", [(), (TWO, ONE), (ONE, ONE), (b"",), (ONE[:-1],), (b"\x01" + ONE[1:],), (ONE, TWO + b"\x00")]
)
def test_what_is_no_view_id(view: tuple[bytes, ...]) -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.check_view_id(view)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "_",
        ONE.hex() + "_",
        ONE.hex()[:-1],
        ONE.hex()[:-2] + "zz",
        ONE.hex()[:-2] + "  ",
        f"{TWO.hex()}_{ONE.hex()}",
        f"{ONE.hex()}_{ONE.hex()}",
        "01" + ONE.hex()[2:],
    ],
)
def test_what_is_no_text_of_a_view_id(text: str) -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.parse_view_id(text)


def test_a_view_id_names_at_least_one_operation() -> None:
    with pytest.raises(identifiers.DocumentViewIdError):
        identifiers.view_id([])
