"""The context of a protocol in tests that need little of it."""

from __future__ import annotations

from contextlib import AsyncExitStack
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from culm_connectors.edge.opening.shared_services import SharedServices
from culm_connectors.edge.protocol import EdgeContext


def edge_context(folder: Path) -> EdgeContext:
    """A context over a folder, without Kafka."""
    known: dict[str, Any] = dict.fromkeys(field.name for field in fields(EdgeContext))
    defaults = {
        "settings": SimpleNamespace(directory=folder),
        "connector_id": bytes(32),
        "shared": SharedServices(),
        "stack": AsyncExitStack(),
        "services": [],
    }
    return EdgeContext(**known | defaults)
