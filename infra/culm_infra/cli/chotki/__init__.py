"""``culm chotki``: classes and objects of Chotki, and the status of its replicas.

- `writing`: class, new, edit; `reading`: get, export, and the state that other commands read
- `status`: status, sources, retire; `replica`: dump and verify, which read a running replica
- `edge`: `listen`, `connect` and `tap`, an edge that serves replicas
- `address`: addresses of replicas; `completion`: shell completion
- `demo`: `culm demo chotki`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from culm_infra.cli.kit.noun import noun

if TYPE_CHECKING:
    from culm_infra.settings import CulmSettings
    from culm_streaming.chotki.job import ChotkiJobSettings

app = noun(
    "Chotki's objects: create, change and read them, and show the state of replicas.",
    {
        "listen": "chotki.edge:listen",
        "connect": "chotki.edge:connect",
        "tap": "chotki.edge:tap",
        "class": "chotki.writing:class_",
        "new": "chotki.writing:new",
        "edit": "chotki.writing:edit",
        "get": "chotki.reading:get",
        "dump": "chotki.replica:dump",
        "export": "chotki.reading:export",
        "status": "chotki.status:status",
        "sources": "chotki.status:sources",
        "retire": "chotki.status:retire",
        "verify": "chotki.replica:verify",
    },
)


def chotki_settings(settings: CulmSettings) -> ChotkiJobSettings:
    """Build the settings of the job `chotki`."""
    from culm_streaming.chotki.job import ChotkiJobSettings

    return ChotkiJobSettings(max_offsets_per_trigger=settings.job.max_offsets_per_trigger)
