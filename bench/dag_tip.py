"""The tip of a total order: a new operation's rank, whether it is the tip, and the whole order kept
sorted.
"""

from __future__ import annotations

from bench.dag_material import operations
from bench.harness import BenchSettings, Ratio, interleaved_rates
from culm_models.dag.order.ranks import ROOT, Rank, rank_of, sorts_before
from culm_models.dag.order.total_order import TotalOrder

_GOAL_RATE = 500_000


def run(settings: BenchSettings) -> list[Ratio]:
    """Measure operations as they arrive, some on priors that are not the tip; CID texts are computed
    before.
    """
    count, repeats = (2_000, 1) if settings.quick else (20_000, 9)
    published = operations(count)
    for cid, _ in published:
        cid.text  # noqa: B018
    named = [(cid, None if prior is None else published[prior][0]) for cid, prior in published]

    def tips() -> int:
        ranks: list[Rank] = []
        tip = ROOT
        for cid, prior in published:
            rank = rank_of(cid, ROOT if prior is None else ranks[prior])
            ranks.append(rank)
            if sorts_before(tip, rank):
                tip = rank
        return count

    def plain_keys() -> int:
        keys: list[tuple[str, ...]] = []
        tip: tuple[str, ...] = ()
        for cid, prior in published:
            key = () if prior is None else keys[prior]
            size, text = len(key), cid.text
            while size and key[size - 1] < text:
                size -= 1
            key = (*key[:size], text)
            keys.append(key)
            tip = max(tip, key)
        return count

    def orders() -> int:
        order = TotalOrder()
        for cid, above in named:
            order.add(cid, above)
        return count

    tip_rate, plain_rate, order_rate = interleaved_rates([tips, plain_keys, orders], repeats=repeats)
    return [
        Ratio("dag-tip", "tip updates", tip_rate, _GOAL_RATE, "operations/s", "the goal", 1.0),
        Ratio(
            "dag-tip",
            "tip updates",
            tip_rate,
            plain_rate,
            "operations/s",
            "tuples, without bound",
            None,
        ),
        Ratio(
            "dag-tip",
            "orders kept",
            order_rate,
            plain_rate,
            "operations/s",
            "tuples, tip alone",
            None,
        ),
    ]
