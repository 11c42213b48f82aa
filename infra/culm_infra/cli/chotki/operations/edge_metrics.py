"""What an edge measures of Chotki, and whether it is ready, as its port for metrics tells."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from typing import Any, ClassVar

from culm_infra.errors import InfraError

_TIMEOUT_S = 5.0
_OF_CHOTKI = "culm_chotki_"
_NOT_READY = 503


class EdgeUnreachable(InfraError):
    """No edge answers at an address."""

    code: ClassVar[str] = "infra.edge_unreachable"


def read_edge(address: str) -> dict[str, Any]:
    """`address`, `ready`, the reasons why it is not, and `metrics`: those of Chotki, by name and labels.

    `address` is HOST:PORT of `--metrics-port`. Raises `EdgeUnreachable`.
    """
    ready, told = _get(address, "/readyz")
    _, text = _get(address, "/metrics")
    reasons = [] if ready else told.splitlines()
    return {"address": address, "ready": ready, "reasons": reasons, "metrics": _metrics(text)}


def _get(address: str, path: str) -> tuple[bool, str]:
    url = f"http://{address.removeprefix('http://').rstrip('/')}{path}"
    hint = "give HOST:PORT of an edge's --metrics-port"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
            return True, answer.read().decode("utf-8", "replace")
    except urllib.error.HTTPError as error:
        if error.code == _NOT_READY:
            return False, error.read().decode("utf-8", "replace")
        raise EdgeUnreachable(f"{url} answers {error.code}", hint=hint) from error
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise EdgeUnreachable(f"nothing answers at {url}: {error}", hint=hint) from error


def _metrics(text: str) -> dict[str, float]:
    from prometheus_client.parser import text_string_to_metric_families

    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            of_chotki = sample.labels.get("protocol") == "chotki"
            if not of_chotki and not sample.name.startswith(_OF_CHOTKI):
                continue
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if not sample.name.endswith(("_bucket", "_created")):
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found
