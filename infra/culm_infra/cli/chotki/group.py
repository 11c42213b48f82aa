"""``culm chotki``: objects that replicas merge, one line for each command."""

from __future__ import annotations

from culm_infra.cli.noun import noun

app = noun(
    "Chotki's objects: make, change and read them, and see how replicas stand.",
    {
        "listen": "chotki.edge:listen",
        "connect": "chotki.edge:connect",
        "tap": "chotki.edge:tap",
        "class": "chotki.objects.classes:class_",
        "new": "chotki.objects.edit:new",
        "edit": "chotki.objects.edit:edit",
        "get": "chotki.objects.get:get",
        "dump": "chotki.operations.dump:dump",
        "export": "chotki.objects.export:export",
        "status": "chotki.operations.status:status",
        "sources": "chotki.operations.sources:sources",
        "retire": "chotki.operations.sources:retire",
        "verify": "chotki.operations.verify:verify",
    },
)
