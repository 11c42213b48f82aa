"""The total order (reference 5): the greedy rule by brute force, the pairwise rule, and bounded work."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from culm_models.dag.blocks.cid import DAG_CBOR, Cid, cid_of
from culm_models.dag.order import ranks
from culm_models.dag.order.ranks import ROOT, Rank, builds_on, rank_of, sorts_before
from culm_models.dag.order.total_order import OrderChange, TotalOrder, order_of

Tree = dict[Cid, Cid | None]
CIDS = sorted(cid_of(DAG_CBOR, n.to_bytes(2, "big")) for n in range(4000))


def path(tree: Tree, cid: Cid | None) -> list[Cid]:
    cids: list[Cid] = []
    while cid is not None:
        cids.insert(0, cid)
        cid = tree[cid]
    return cids


def greedy(tree: Tree) -> list[Cid]:
    """Always the smallest whose prior is out."""
    out: list[Cid] = []
    while len(out) < len(tree):
        ready = [cid for cid, prior in tree.items() if cid not in out and (prior is None or prior in out)]
        out.append(min(ready))
    return out


def pairwise(tree: Tree, left: Cid, right: Cid) -> list[Cid]:
    """The specification's rule for two chains."""
    a, b = path(tree, left), path(tree, right)
    out = []
    while a and b and a[0] == b[0]:
        out.append(a.pop(0))
        b.pop(0)
    while a and b:
        out.append(a.pop(0) if a[0] < b[0] else b.pop(0))
    return out + a + b


def maxima(chain: list[Cid]) -> list[Cid]:
    return [cid for at, cid in enumerate(chain) if all(cid > later for later in chain[at + 1 :])]


def drawn_tree(random: Random, size: int) -> Tree:
    cids = random.sample(CIDS[:200], size)
    lean = random.random()
    tree: Tree = {}
    for at, cid in enumerate(cids):
        if at and random.random() < 0.9:
            tree[cid] = cids[at - 1] if random.random() < lean else cids[random.randrange(at)]
        else:
            tree[cid] = None
    return tree


@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_any_order_of_arrival_makes_the_greedy_order(random: Random, size: int) -> None:
    tree = drawn_tree(random, size)
    expected = greedy(tree)
    arrivals = list(tree)
    for _ in range(3):
        random.shuffle(arrivals)
        order = order_of((cid, tree[cid]) for cid in arrivals)
        assert order.order() == expected
        assert order.tip == expected[-1]
        assert order.tip_key() == maxima(path(tree, order.tip))
        assert order.heads() == sorted(set(tree) - {prior for prior in tree.values() if prior is not None})
        assert order.held() == []


@given(st.randoms(use_true_random=False), st.integers(2, 12))
def test_every_two_operations_stand_as_the_pairwise_rule_has_them(random: Random, size: int) -> None:
    tree = drawn_tree(random, size)
    order = greedy(tree)
    for left, right in itertools.combinations(tree, 2):
        pair = pairwise(tree, left, right)
        assert [cid for cid in order if cid in pair] == pair


@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_all_labelled_trees(size: int) -> None:
    cids = CIDS[:size]
    for priors in itertools.product([None, *cids], repeat=size):
        tree: Tree = dict(zip(cids, priors, strict=True))
        if any(len(walk(tree, cid)) == 0 for cid in cids):
            continue
        assert order_of(tree.items()).order() == greedy(tree)


def walk(tree: Tree, cid: Cid) -> list[Cid]:
    """The path to an operation; empty where priors make a circle."""
    walked: list[Cid] = []
    at: Cid | None = cid
    while at is not None:
        if at in walked:
            return []
        walked.append(at)
        at = tree[at]
    return walked


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_a_change_says_from_which_place_on(random: Random, size: int) -> None:
    tree = drawn_tree(random, size)
    arrivals = list(tree)
    random.shuffle(arrivals)
    order = TotalOrder()
    for at, cid in enumerate(arrivals):
        before, tip = order.order(), order.tip
        change = order.add(cid, tree[cid])
        after = order.order()
        here = {arrival: tree[arrival] for arrival in arrivals[: at + 1]}
        placed = {cid: prior for cid, prior in here.items() if set(path_or_all(here, cid)) <= set(here)}
        assert after == greedy(placed)
        assert order.held() == sorted(set(here) - set(placed))
        same = next((n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), len(before))
        assert (change.start, change.changed) == (same, len(after) - same)
        assert order.order(change.start) == after[same:]
        assert set(change.added) == set(after) - set(before)
        lost = tip is not None and tip not in path(placed, order.tip)
        assert change.superseded == (tip if lost else None)
        assert order.add(cid, tree[cid]) == OrderChange((), len(after), 0, None)


def path_or_all(tree: Tree, cid: Cid | None) -> list[Any]:
    cids: list[Any] = []
    while cid is not None:
        cids.append(cid)
        cid = tree.get(cid)
    return cids


@given(st.randoms(use_true_random=False), st.integers(1, 20))
def test_what_links_to_the_tip_comes_last(random: Random, size: int) -> None:
    order = order_of(drawn_tree(random, size).items())
    new = random.choice(CIDS[200:])
    change = order.add(new, order.tip)
    assert order.tip == new
    assert change.superseded is None
    assert change.start == size


@given(st.randoms(use_true_random=False), st.integers(1, 14))
def test_ranks_compare_as_their_keys(random: Random, size: int) -> None:
    tree = drawn_tree(random, size)
    ranks: dict[Cid, Rank] = {}
    for cid in path_first(tree):
        prior = tree[cid]
        ranks[cid] = rank_of(cid, ROOT if prior is None else ranks[prior])
        assert ranks[cid].key() == maxima(path(tree, cid))
    for left, right in itertools.product(ranks.values(), repeat=2):
        assert sorts_before(left, right) == (left.key() < right.key())
        assert builds_on(left, right) == (right.cid in path(tree, left.cid))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_long_keys_compare_as_short_ones(seed: int) -> None:
    """Falling runs with branches at every depth, below and above the length up to which keys are tuples."""
    random = Random(seed)
    ranks: list[Rank] = [ROOT]
    for cid in CIDS[150:50:-1]:
        ranks.append(rank_of(cid, ranks[-1]))
    run = ranks[1:]
    for cid in random.sample(CIDS[:50] + CIDS[151:300], 60):
        ranks.append(rank_of(cid, random.choice(ranks)))
    assert max(rank.depth for rank in ranks) >= len(run)
    for left, right in itertools.product(ranks[1:], repeat=2):
        assert sorts_before(left, right) == (left.key() < right.key())


def path_first(tree: Tree) -> list[Cid]:
    return sorted(tree, key=lambda cid: len(path(tree, cid)))


def test_the_pictures_of_the_specification() -> None:
    letters = {name: CIDS[n] for n, name in enumerate(["e1", "g1", "g2", "g3", "g4", "k2", "e3"])}
    e1, g1, g2, g3, g4, k2, e3 = letters.values()
    tree = {g1: None, g2: g1, g3: g2, g4: g3, e1: g1, k2: e1, e3: k2}
    assert order_of(tree.items()).order() == [g1, e1, g2, g3, g4, k2, e3]
    assert order_of({g1: None, g2: g1, g3: g2, k2: g2}.items()).order() == [g1, g2, g3, k2]


def test_work_is_bounded_on_the_longest_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ground run of falling CIDs, and children on its end: a step looks at O(log n) elements of a key."""
    run, children = CIDS[3000:1000:-1], CIDS[:1000] + CIDS[3001:]
    looks = 0

    class CountedRank(Rank):
        def __getattribute__(self, name: str) -> Any:
            nonlocal looks
            looks += name in ("jump", "below")
            return super().__getattribute__(name)

    monkeypatch.setattr(ranks, "Rank", CountedRank)
    order = order_of(zip(run, [None, *run], strict=False))
    assert len(order.tip_key()) == len(run)
    looks = 0
    for cid in children:
        order.add(cid, run[-1])
    # Each compares with some 22 others (log2 of all, twice), and each time looks at some 3 x 11 elements.
    assert looks / len(children) < 22 * 4 * 3 * 11
    assert looks / len(children) < len(run) * 22 / 20
    assert len(order) == len(run) + len(children)


@pytest.mark.parametrize("seed", [1, 2])
def test_many_operations_in_pieces(seed: int) -> None:
    random = Random(seed)
    cids = CIDS[:2500]
    tree: Tree = {cid: random.choice([None, *cids[:at]][-20:]) for at, cid in enumerate(cids)}
    arrivals = list(tree)
    random.shuffle(arrivals)
    order = order_of((cid, tree[cid]) for cid in arrivals)
    keys = {cid: [rank.text for rank in maxima(path(tree, cid))] for cid in order.order()[::50]}
    assert list(keys.values()) == sorted(keys.values())
    assert len(order) == len(tree)
    assert order.order(700) == order.order()[700:]
