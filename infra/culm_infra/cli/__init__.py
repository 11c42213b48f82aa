"""The ``culm`` command: one module or package per noun, imported only when it is used.

- ``root``: the table of nouns. ``kit``: what the commands share.
- ``stack``, ``topics``, ``job``, ``connector``, ``demo``, ``console``, ``doctor``, ``settings``, ``conform``,
  ``jars``, ``support``, ``about`` (version and help): nouns that belong to no single protocol. ``status``:
  what runs here.
- ``logs``: replicated logs. ``rejected``: refused data. ``p2panda``, ``sds``, ``chotki``, ``bamboo``,
  ``dag``: one noun per protocol.

``main`` turns errors into one clear line, a hint and an exit status: 0 done, 1 failed, 2 wrong usage, 3 not
converged or degraded, 75 try again later, 130 interrupted. Data goes to standard output, messages to standard
error.
"""

from __future__ import annotations

import faulthandler
import sys


def main() -> None:
    """Run the installed command and exit with its status."""
    if sys.__stderr__ is not None:
        # A crash inside a library's C code then leaves the stacks of all threads in the log.
        faulthandler.enable(sys.__stderr__)
    try:
        from culm_infra.cli.root import run
    except ModuleNotFoundError as error:
        # The bare install carries the consumer's library alone, not the command line.
        sys.stderr.write(
            f"culm: the command line needs the package {error.name!r}, which is not installed\n"
            "hint: pip install 'culm[cli]', or culm[edge], culm[streaming], culm[stack] for what you run\n"
        )
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
