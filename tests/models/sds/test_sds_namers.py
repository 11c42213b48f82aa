"""Ids by who named them: the one with the most gives way, and what two name counts for whoever has fewer."""

from culm_models.sds.delivery.missing import Namers


def namers_of(**counts: int) -> Namers:
    namers = Namers()
    for name, count in counts.items():
        for number in range(count):
            namers.add(f"{name} {number}", name)
    return namers


def test_the_newest_id_of_whoever_named_the_most_gives_way() -> None:
    namers = namers_of(eve=5, bob=2)
    assert namers.surplus("alice") == "eve 4"
    assert namers.surplus("bob") == "eve 4"
    namers.drop("eve 4")
    assert namers.surplus("alice") == "eve 3"


def test_nobody_gives_way_to_whoever_named_the_most() -> None:
    namers = namers_of(eve=5, bob=4)
    assert namers.surplus("eve") is None
    assert namers.surplus("bob") is None
    assert Namers().surplus("alice") is None


def test_what_two_name_counts_for_whoever_has_fewer() -> None:
    namers = namers_of(eve=3, bob=1)
    namers.share("eve 0", "bob")
    assert namers.namer_of("eve 0") == "bob"
    namers.share("eve 1", "bob")
    assert namers.namer_of("eve 1") == "eve"
    namers.share("unknown", "bob")
    assert (namers.count("eve"), namers.count("bob"), namers.count("carol")) == (2, 2, 0)


def test_they_are_restored_as_they_were() -> None:
    namers = namers_of(eve=3, bob=1)
    namers.share("eve 0", "carol")
    again = Namers.restored(namers.items())
    assert again.items() == namers.items()
    assert again.surplus("dave") == namers.surplus("dave")
