"""UCANs: form, signed text and signature, against the bare Ed25519 verification of the same signatures."""

from __future__ import annotations

from bench.dag_material import ucans
from bench.dag_npm import asked, libraries
from bench.harness import BenchSettings, Ratio, best_rate, middle_pair
from culm_models.dag.ucan.signing import verified_ucan
from culm_models.keys import verify

_GOAL = 0.5


def run(settings: BenchSettings) -> list[Ratio]:
    """Verify leaves of one key; the sides alternate, and the middle round counts."""
    rounds, count = (1, 100) if settings.quick else (11, 500)
    leaves = ucans(count)

    def ours() -> int:
        for leaf in leaves:
            verified_ucan(leaf.cid, leaf.block)
        return count

    def bare() -> int:
        for leaf in leaves:
            verify(leaf.claims.issuer[2:], leaf.signature, leaf.signed_text)
        return count

    rates: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for series, action in zip(rates, (ours, bare), strict=True):
            series.append(best_rate(action, repeats=1))
    rate, limit = middle_pair(*rates)
    ratios = [Ratio("dag-ucan", "leaf verified", rate, limit, "UCANs/s", "Ed25519 verify", _GOAL)]
    folder = libraries()
    if folder is not None:
        theirs = asked(folder, "ucan", bytes=leaves[0].block.hex(), count=count)["verify"]
        ratios.append(Ratio("dag-ucan", "leaf verified", rate, theirs, "UCANs/s", "@ipld/dag-ucan", None))
    return ratios
