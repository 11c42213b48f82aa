"""Checking nodes of a DAG (canonical DAG-CBOR, CIDs, depth, and the node's own CID) beside JavaScript."""

from __future__ import annotations

from collections.abc import Callable

from bench.dag_material import appends, publishes
from bench.dag_npm import asked, libraries
from bench.harness import BenchSettings, Ratio, best_rate, middle_pair
from culm_models.dag.blocks.dag_cbor import dag_cbor_cid, decode_dag_cbor, scan_dag_cbor
from culm_models.dag.replica.codec import decode_node

_GOAL = 10.0


def run(settings: BenchSettings) -> list[Ratio]:
    """Check the same blocks on both sides; the sides alternate, and the middle round counts."""
    rounds, count, size = (1, 2_000, 200) if settings.quick else (5, 40_000, 1_000)
    folder = libraries()
    ratios: list[Ratio] = []
    for name, blocks in (("append", appends(size)), ("publish", publishes(size))):
        repeated = blocks * (count // size)
        ours: list[float] = []
        checked: list[float] = []
        decoded: list[float] = []
        for _ in range(rounds):
            ours.append(_rate(dag_cbor_cid, repeated))
            if folder is not None:
                theirs = asked(folder, "node", blocks=[block.hex() for block in blocks], count=count)
                checked.append(theirs["check"])
                decoded.append(theirs["decode"])
        details: dict[str, float] = {
            "bytes": len(blocks[0]),
            "ours_to_values": _rate(decode_dag_cbor, repeated),
            "ours_to_nodes": _rate(decode_node, repeated[: count // 10]),
            "ours_by_the_scanner_alone": _rate(scan_dag_cbor, repeated[: count // 10]),
        }
        check = f"{name}: node check"
        for what, limits, goal in (
            ("decode, encode, compare, CID", checked, _GOAL),
            ("decode alone, nothing checked", decoded, None),
        ):
            if limits:
                rate, limit = middle_pair(ours, limits)
                limit_name = f"@ipld/dag-cbor: {what}"
                ratios.append(
                    Ratio("dag-node", check, rate, limit, "nodes/s", limit_name, goal, details=details)
                )
        if not decoded:
            limit = details["ours_by_the_scanner_alone"]
            ratios.append(
                Ratio("dag-node", check, max(ours), limit, "nodes/s", "our scanner", None, details=details)
            )
    return ratios


def _rate(check: Callable[[bytes], object], blocks: list[bytes]) -> float:
    def all_of_them() -> int:
        for block in blocks:
            check(block)
        return len(blocks)

    return best_rate(all_of_them, repeats=1)
