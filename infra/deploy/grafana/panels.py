"""Short descriptions of Grafana dashboards, and the JSON that Grafana reads.

A `Dashboard` has rows of panels; a `Panel` has queries, a unit and thresholds. `Dashboard.render` places the
panels and returns Grafana's JSON model. In an expression, these marks stand inside the braces of a selector:

- `%i`: the chosen instances
- `%p`: the chosen instances and protocols
- `%q`: the chosen instances and queries
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

SCHEMA_VERSION: Final = 39
"""Version of the model, of Grafana 10.2; a later Grafana migrates it when it loads the dashboard."""
_COLUMNS: Final = 24
_DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
_MARKS: Final = {
    "%i": 'job=~"$job",instance=~"$instance"',
    "%p": 'job=~"$job",instance=~"$instance",protocol=~"$protocol"',
    "%q": 'job=~"$job",instance=~"$instance",query=~"$query"',
}

Kind = Literal["timeseries", "stat", "state-timeline", "table"]
Thresholds = Sequence[tuple[float | None, str]]
"""Colours from the lowest value up; the first has no lower bound."""
States = Mapping[int, tuple[str, str]]
"""Text and colour of values that are states."""

CALM: Final[Thresholds] = ((None, "green"),)
NONE_IS_GOOD: Final[Thresholds] = ((None, "green"), (1, "red"))
ALL_IS_GOOD: Final[Thresholds] = ((None, "red"), (1, "green"))


def limits(warning: float, critical: float) -> Thresholds:
    """Return thresholds that turn orange and red at these values."""
    return (None, "green"), (warning, "orange"), (critical, "red")


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `queries` are pairs of an expression and the legend of its series."""

    title: str
    queries: Sequence[tuple[str, str]]
    unit: str
    description: str
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 7
    thresholds: Thresholds = CALM
    states: States = field(default_factory=dict)
    is_stacked: bool = False
    links: Sequence[tuple[str, str]] = ()
    """Title and uid of dashboards with more about it."""

    def render(self, number: int, x: int, y: int) -> dict[str, Any]:
        """Return the panel's JSON at a place of the grid."""
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.description,
            "gridPos": {"h": self.height, "w": self.width, "x": x, "y": y},
            "datasource": _DATASOURCE,
            "targets": list(self._targets()),
            "fieldConfig": {"defaults": self._defaults(), "overrides": []},
            "options": _OPTIONS[self.kind],
            "links": [{"title": title, "url": _url(uid)} for title, uid in self.links],
        }

    def _targets(self) -> Iterator[dict[str, Any]]:
        is_instant = self.kind in ("stat", "table")
        for number, (expression, legend) in enumerate(self.queries):
            yield {
                "refId": chr(ord("A") + number),
                "datasource": _DATASOURCE,
                "editorMode": "code",
                "expr": expand(expression),
                "legendFormat": legend,
                "range": not is_instant,
                "instant": is_instant,
                "format": "table" if self.kind == "table" else "time_series",
            }

    def _defaults(self) -> dict[str, Any]:
        steps = [{"value": value, "color": color} for value, color in self.thresholds]
        states = {
            str(value): {"index": index, "text": text, "color": color}
            for index, (value, (text, color)) in enumerate(self.states.items())
        }
        return {
            "unit": self.unit,
            "min": 0,
            "color": {"mode": "palette-classic" if self.kind == "timeseries" else "thresholds"},
            "thresholds": {"mode": "absolute", "steps": steps},
            "mappings": [{"type": "value", "options": states}] if states else [],
            "custom": self._custom(),
        }

    def _custom(self) -> dict[str, Any]:
        match self.kind:
            case "timeseries":
                return {
                    "drawStyle": "line",
                    "lineInterpolation": "linear",
                    "lineWidth": 1,
                    "fillOpacity": 30 if self.is_stacked else 8,
                    "showPoints": "never",
                    "spanNulls": False,
                    "stacking": {"mode": "normal" if self.is_stacked else "none", "group": "A"},
                    "thresholdsStyle": {"mode": "line" if len(self.thresholds) > 1 else "off"},
                }
            case "state-timeline":
                return {"lineWidth": 0, "fillOpacity": 80}
            case _:
                return {}


_LEGEND: Final = {"displayMode": "table", "placement": "bottom", "showLegend": True}
_OPTIONS: Final[Mapping[Kind, dict[str, Any]]] = {
    "timeseries": {
        "legend": {**_LEGEND, "calcs": ["lastNotNull", "max"]},
        "tooltip": {"mode": "multi", "sort": "desc"},
    },
    "stat": {
        "colorMode": "background",
        "graphMode": "none",
        "justifyMode": "auto",
        "orientation": "auto",
        "textMode": "auto",
        "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
    },
    "state-timeline": {
        "alignValue": "left",
        "mergeValues": True,
        "rowHeight": 0.9,
        "showValue": "auto",
        "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True},
        "tooltip": {"mode": "single", "sort": "none"},
    },
    "table": {"cellHeight": "sm", "showHeader": True, "footer": {"show": False}},
}


@dataclass(frozen=True, slots=True)
class PanelRow:
    """Panels under one title, placed from left to right and top to bottom."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class LabelChoice:
    """A choice at the top of a dashboard: the values of a label, one, several or all of them."""

    name: str
    title: str
    query: str

    def render(self) -> dict[str, Any]:
        """Return the variable's JSON."""
        return {
            "name": self.name,
            "label": self.title,
            "type": "query",
            "datasource": _DATASOURCE,
            "definition": self.query,
            "query": {"query": self.query, "refId": "StandardVariableQuery"},
            "refresh": 2,
            "sort": 1,
            "multi": True,
            "includeAll": True,
            "allValue": ".*",
            "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
            "options": [],
            "hide": 0,
            "regex": "",
            "skipUrlSync": False,
        }


JOB: Final = LabelChoice("job", "Job", 'label_values(up{job=~"culm-.*"}, job)')
INSTANCE: Final = LabelChoice("instance", "Instance", 'label_values(up{job=~"$job"}, instance)')
PROTOCOL: Final = LabelChoice("protocol", "Protocol", "label_values(culm_connections, protocol)")
QUERY: Final = LabelChoice("query", "Query", "label_values(culm_job_up, query)")


@dataclass(frozen=True, slots=True)
class Dashboard:
    """One dashboard. Its uid, which is also the name of its file, never changes: links contain it."""

    uid: str
    title: str
    description: str
    variables: Sequence[LabelChoice]
    rows: Sequence[PanelRow]

    def render(self) -> str:
        """Return the text of its file."""
        return json.dumps(self._model(), indent=1) + "\n"

    def _model(self) -> dict[str, Any]:
        datasource = {
            "name": "datasource",
            "label": "Data source",
            "type": "datasource",
            "query": "prometheus",
            "current": {},
            "hide": 0,
            "includeAll": False,
            "multi": False,
            "options": [],
            "refresh": 1,
            "regex": "",
            "skipUrlSync": False,
        }
        return {
            "uid": self.uid,
            "title": f"Culm / {self.title}",
            "description": self.description,
            "tags": ["culm"],
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "graphTooltip": 1,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "timezone": "browser",
            "annotations": {"list": [_ALERTS]},
            "links": [_OTHERS],
            "templating": {"list": [datasource, *(variable.render() for variable in self.variables)]},
            "panels": list(self._panels()),
        }

    def _panels(self) -> Iterator[dict[str, Any]]:
        number = y = 0
        for row in self.rows:
            number += 1
            place = {"h": 1, "w": _COLUMNS, "x": 0, "y": y}
            yield {
                "id": number,
                "type": "row",
                "title": row.title,
                "gridPos": place,
                "collapsed": False,
                "panels": [],
            }
            y += 1
            x = height = 0
            for panel in row.panels:
                if x + panel.width > _COLUMNS:
                    x, y, height = 0, y + height, 0
                number += 1
                yield panel.render(number, x, y)
                x, height = x + panel.width, max(height, panel.height)
            y += height


_ALERTS: Final = {
    "name": "Alerts",
    "datasource": _DATASOURCE,
    "enable": True,
    "hide": False,
    "iconColor": "red",
    "expr": 'ALERTS{alertname=~"Culm.*",alertstate="firing"}',
    "titleFormat": "{{alertname}}",
    "textFormat": "{{instance}}",
    "step": "60s",
}
_OTHERS: Final = {
    "type": "dashboards",
    "title": "Culm",
    "tags": ["culm"],
    "asDropdown": True,
    "includeVars": True,
    "keepTime": True,
    "targetBlank": False,
    "icon": "external link",
    "tooltip": "Other dashboards of Culm",
    "url": "",
}


def expand(expression: str) -> str:
    """Return an expression with its marks replaced."""
    for mark, matchers in _MARKS.items():
        expression = expression.replace(mark, matchers)
    return expression


def _url(uid: str) -> str:
    return f"/d/{uid}?${{datasource:queryparam}}&${{instance:queryparam}}&${{__url_time_range}}"
