"""``python -m culm_infra`` runs the ``culm`` command if its script is not on the path."""

from culm_infra.cli import main

main()
