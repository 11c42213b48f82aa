"""Write the dashboards: `python -m deploy.grafana.render`, from the root of the repository."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from deploy.grafana.connector import CONNECTOR
from deploy.grafana.jobs import JOBS
from deploy.grafana.overview import OVERVIEW
from deploy.grafana.panels import Dashboard
from deploy.grafana.protocols import PROTOCOLS

FOLDER: Final = Path(__file__).parent / "dashboards"

DASHBOARDS: Final[dict[Path, Dashboard]] = {
    FOLDER / f"{dashboard.uid}.json": dashboard for dashboard in (OVERVIEW, CONNECTOR, JOBS, *PROTOCOLS)
}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for path, dashboard in DASHBOARDS.items():
        path.write_text(dashboard.render(), encoding="utf-8")
        print(path)
