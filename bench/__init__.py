"""Benchmarks: one command (``make bench``), ratios against a limit measured in the same run.

Each case is a module with ``run(settings) -> list[Ratio]``; ``__main__`` runs them, prints one table, and
writes ``bench/results/results.json`` and a plot. A ratio compares Culm's rate with that of the bare machinery
below it on the same bytes, in the same process and minute, so that it is meaningful on a noisy machine. No
test asserts on any of these figures.
"""
