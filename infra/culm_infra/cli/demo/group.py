"""``culm demo``: the main job in under two minutes, and one demo for each further protocol."""

from __future__ import annotations

import inspect

from culm_infra.cli.kit.noun import load, noun, spread
from culm_infra.protocols import DEMOS

_first, *_others = DEMOS

_demo = load(DEMOS[_first])

app = noun(
    inspect.getdoc(_demo) or "",
    {name: DEMOS[name] for name in _others},
    callback=spread(_demo),
    invoke_without_command=True,
    no_args_is_help=False,
)
