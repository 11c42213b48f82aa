"""Shell completion of ``culm chotki``: global names and modes.

Every reading command leaves a file of names, so completion is quick and asks no broker.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from culm_infra.cli.kit.options import words

if TYPE_CHECKING:
    from culm_topics.kafka.clients import KafkaSettings

_MAX_NAMES = 10_000


def complete_name(incomplete: str) -> list[str]:
    """Complete global names of classes and objects, of all deployments that were read from this machine."""
    names: set[str] = set()
    for path in _folder().glob("*.json"):
        with contextlib.suppress(OSError, ValueError):
            names.update(name for name in json.loads(path.read_text()) if str(name).startswith(incomplete))
    return sorted(names)


def remember_names(kafka: KafkaSettings, names: Iterable[str]) -> None:
    """Keep the first names of a deployment for completion; a failure to write them is ignored."""
    which = sha256(f"{kafka.bootstrap}\n{kafka.prefix}".encode()).hexdigest()[:16]
    path = _folder() / f"{which}.json"
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(sorted(names)[:_MAX_NAMES]))


complete_compat = words("default", "go")


def complete_mode(incomplete: str) -> list[str]:
    """Complete the names of modes."""
    from culm_models.chotki.packets.handshake import MODES

    return words(*MODES)(incomplete)


def _folder() -> Path:
    from culm_infra.settings import DIRECTORIES

    return Path(DIRECTORIES.user_cache_dir) / "chotki"
