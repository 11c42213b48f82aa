"""``python -m bench [CASE …] [--quick] [--json]``: run the cases, print the ratios, write JSON and a plot."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.harness import BenchSettings, Ratio, save
from bench.ratio_plot import draw

CASES = {
    "a": "bench.verify",
    "b": "bench.ingest",
    "c": "bench.logs_job",
    "d": "bench.latency",
    "e": "bench.catch_up",
    "rbsr": "bench.reconciliation",
    "blocks": "bench.blocks_job",
    "coverage": "bench.coverage_job",
    "documents": "bench.documents_job",
    "ranges": "bench.range_index",
    "boot": "bench.boot",
    "fan-out": "bench.fan_out",
    "console": "bench.console",
    "sds-job": "bench.sds_job",
    "sds-ack": "bench.sds_ack",
    "sds-bloom": "bench.sds_bloom",
    "sds-channel": "bench.sds_channel",
    "sds-sync": "bench.sds_sync",
    "sds-answers": "bench.sds_answers",
    "chotki-diff": "bench.chotki_diff",
    "chotki-merges": "bench.chotki_merges",
    "chotki-job": "bench.chotki_job",
    "chotki-live": "bench.chotki_live",
    "lzfoo": "bench.lzfoo",
    "bamboo": "bench.bamboo_ends",
    "bamboo-stream": "bench.bamboo_stream",
    "dag-transfer": "bench.dag_transfer",
    "dag-http": "bench.dag_http",
    "dag-node": "bench.dag_node",
    "dag-car": "bench.dag_car",
    "dag-ucan": "bench.dag_ucan",
    "dag-tip": "bench.dag_tip",
    "dag-job": "bench.dag_job",
}

talk = Console(stderr=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("cases", nargs="*", help=f"which of {', '.join(CASES)}; all by default")
    parser.add_argument(
        "--quick", action="store_true", help="a smoke run: small sizes, figures that mean little"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document instead of a table")
    parser.add_argument("--results", type=Path, default=Path("bench/results"))
    parser.add_argument(
        "--negentropy", type=Path, help="negentropy's Negentropy.js, to run beside set reconciliation"
    )
    parser.add_argument("--size", type=int, metavar="MB", help="how much dag-transfer carries (1000)")
    arguments = parser.parse_args()
    unknown = set(arguments.cases) - set(CASES)
    if unknown:
        parser.error(f"no such case: {', '.join(sorted(unknown))}")
    settings = BenchSettings(arguments.quick, arguments.results, arguments.negentropy, arguments.size)

    ratios: list[Ratio] = []
    for case in arguments.cases or CASES:
        module = importlib.import_module(CASES[case])
        talk.print(f"[bold]({case})[/] {(module.__doc__ or '').splitlines()[0]}")
        load_before = os.getloadavg()[0]
        for ratio in module.run(settings):
            # Other load of the machine is part of a figure.
            ratio.details["load_average_before_and_after"] = [load_before, os.getloadavg()[0]]
            ratios.append(ratio)
            talk.print(f"    {ratio.name}: {ratio.ours:,.0f} against {ratio.limit:,.0f} {ratio.unit}")
        # After every case, so that a later failure does not lose the figures of this case.
        folder = save(ratios, settings)
        draw(ratios, folder / "ratios.svg")
    if arguments.json:
        sys.stdout.write(
            json.dumps([{**asdict(ratio), "ratio": ratio.ratio, "met": ratio.met} for ratio in ratios]) + "\n"
        )
    else:
        Console().print(_table(ratios))
    talk.print(f"written: {folder / 'results.json'}, {folder / 'ratios.svg'}")
    return 0


def _table(ratios: list[Ratio]) -> Table:
    table = Table(title="Culm against the limits of its parts, in one run", title_justify="left")
    for column in ("case", "what", "ours", "limit", "unit", "ratio", "goal", "met"):
        table.add_column(column, justify="left" if column in {"case", "what", "unit", "met"} else "right")
    for ratio in ratios:
        goal = "" if ratio.goal is None else f"{'≥' if ratio.higher_is_better else '≤'} {ratio.goal:g}"
        met = {True: "yes", False: "[red]no[/]", None: ""}[ratio.met]
        what = f"{ratio.name} / {ratio.limit_name}"
        figures = (f"{ratio.ours:,.1f}", f"{ratio.limit:,.1f}", ratio.unit, f"{ratio.ratio:.2f}")
        table.add_row(ratio.case, what, *figures, goal, met)
    return table


if __name__ == "__main__":
    sys.exit(main())
