"""``culm demo``: the main job in under two minutes, and one demo for each further protocol."""

from __future__ import annotations

from culm_infra.cli.kit.noun import load, noun, spread
from culm_infra.protocols import DEMOS

_first, *_others = DEMOS

app = noun(
    "The main job, seen, in about a minute and a half.",
    {name: DEMOS[name] for name in _others},
    callback=spread(load(DEMOS[_first])),
    invoke_without_command=True,
    no_args_is_help=False,
)
