"""What messages name before their regular causal history."""

from culm_models.sds.sync.names import MOST_REPEATED, SyncNames


def listening(count: int) -> SyncNames:
    """bob's m0, m1, … were received."""
    names = SyncNames()
    for number in range(count):
        names.received(f"m{number}", "bob")
    return names


def test_what_only_a_filter_has_shown_is_named_by_the_next_sync() -> None:
    names = listening(4)
    assert names.names() == (), "the first sync names what its regular causal history holds"
    names.said(["m2", "m3"])
    assert names.names()[:2] == ("m0", "m1")
    assert names.urgent() == ()


def test_what_was_named_is_named_once_more() -> None:
    names = listening(1)
    names.said([])
    names.said(["m0"])
    names.said([])
    assert names.names() == ("m0",)
    names.said(["m0"])
    names.said([])
    assert names.names() == ()


def test_what_a_third_participant_names_is_acknowledged() -> None:
    names = listening(2)
    names.said([])
    names.named_by("carol", ["m0"])
    assert names.names() == ("m1",)


def test_what_its_writer_names_is_not() -> None:
    names = listening(1)
    names.repeated("m1", "bob")
    names.said([])
    names.named_by("bob", ["m0", "m1"])
    assert set(names.names()) == {"m0", "m1"}


def test_repeated_ones_come_first_then_lacking_ones() -> None:
    names = listening(1)
    names.said([])
    names.lacks(["m7"])
    names.repeated("m8", "bob")
    assert names.names() == ("m8", "m7", "m0")
    assert names.urgent() == ("m8", "m7")


def test_what_others_lack_is_told_by_four_syncs_until_more_is_said() -> None:
    names = SyncNames()
    for _ in range(4):
        assert names.lacks(["m1"])
        assert names.names() == ("m1",)
        names.said(["m1"])
    assert not names.lacks(["m1"])
    assert names.names() == ()
    for _ in range(16):
        names.content_came()
    assert names.lacks(["m1"])


def test_everything_is_bounded() -> None:
    names = listening(10_000)
    names.said([])
    assert len(names.names()) == 64
    names.lacks(f"l{number}" for number in range(10_000))
    for number in range(10_000):
        names.repeated(f"r{number}", "bob")
    assert len(names.names()) == MOST_REPEATED + 64 + 64


def test_what_was_never_named_goes_before_what_is_named_again() -> None:
    names = listening(64)
    names.said([])
    names.said([f"m{number}" for number in range(40)])
    for number in range(64, 104):
        names.received(f"m{number}", "bob")
    names.said([])
    assert {f"m{number}" for number in range(64, 104)} <= set(names.names())


def test_it_goes_on_over_a_restart() -> None:
    names = listening(3)
    names.said(["m1"])
    names.repeated("m8", "carol")
    names.lacks(["m7"])
    names.said(["m7"])
    again = SyncNames.restored(names.items())
    assert again.items() == names.items()
    assert again.names() == names.names()
