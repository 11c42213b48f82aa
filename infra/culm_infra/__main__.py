"""``python -m culm_infra``: the ``culm`` command where its script is not on the path."""

from culm_infra.cli import main

main()
