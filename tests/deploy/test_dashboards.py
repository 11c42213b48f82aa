"""Grafana dashboards: as their descriptions say, every metric exists, and every metric is on one of them.

No Grafana runs here: the JSON is checked by the types that its authors publish.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.grafana.panels import SCHEMA_VERSION
from deploy.grafana.render import DASHBOARDS, FOLDER

from docs.reference import metrics
from tests.deploy import expressions
from tests.deploy.tools import ROOT

UNITS = {"none", "short", "cps", "s", "bytes", "binBps", "percentunit"}
"""Units of Grafana that are used; a misspelt one would be shown as text."""
COLOURS = {"green", "orange", "red"}
KINDS = {"row", "timeseries", "stat", "state-timeline", "table"}
UNTYPED = {
    *(f".annotations.list.{name}" for name in ("step", "textFormat", "titleFormat")),
    ".templating.list.definition",
}
"""Fields that data sources and the interface of Grafana add to its types."""
UIDS = {dashboard.uid for dashboard in DASHBOARDS.values()}
PATHS = sorted(DASHBOARDS)


def model(path: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def panels(path: Path) -> list[dict[str, Any]]:
    return [panel for panel in model(path)["panels"] if panel["type"] != "row"]


def queries(path: Path) -> Iterator[str]:
    for panel in panels(path):
        for target in panel["targets"]:
            yield target["expr"]
    for annotation in model(path)["annotations"]["list"]:
        yield annotation["expr"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_dashboard_is_what_its_description_renders(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == DASHBOARDS[path].render(), "run: make reference"


def test_there_is_no_other_dashboard() -> None:
    assert set(FOLDER.iterdir()) == set(DASHBOARDS)


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_every_metric_and_label_of_a_dashboard_exists(path: Path) -> None:
    assert not [(query, faults) for query in queries(path) if (faults := expressions.faults(query))]


def test_every_metric_is_on_a_dashboard() -> None:
    recorded = {rule["record"]: rule["expr"] for rule in expressions.rules() if "record" in rule}
    shown: set[str] = set()
    for path in PATHS:
        for query in queries(path):
            for each in expressions.selectors(query):
                names = (
                    {inner.name for inner in expressions.selectors(recorded[each.name])}
                    if each.name in recorded
                    else {each.name}
                )
                shown |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in names}
    assert not {family.name for family in metrics.families()} - shown


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_variables_of_expressions_are_those_of_the_dashboard(path: Path) -> None:
    names = {variable["name"] for variable in model(path)["templating"]["list"]}
    assert names >= {"datasource", "job", "instance"}
    used = set(re.findall(r"\$\{?(?!__)(\w+)", json.dumps(model(path))))
    assert used == names


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_queries_of_variables_name_labels_that_exist(path: Path) -> None:
    for variable in model(path)["templating"]["list"]:
        if variable["type"] == "query":
            match = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["query"]["query"])
            assert match is not None
            assert not expressions.faults(match[1])
            assert all(
                match[2] in expressions.series()[each.name] for each in expressions.selectors(match[1])
            )


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_panel_has_a_title_a_description_a_unit_and_thresholds(path: Path) -> None:
    for panel in panels(path):
        assert panel["title"]
        assert panel["description"].endswith("."), panel["title"]
        defaults = panel["fieldConfig"]["defaults"]
        assert defaults["unit"] in UNITS, panel["title"]
        steps = defaults["thresholds"]["steps"]
        assert steps[0]["value"] is None
        values = [step["value"] for step in steps[1:]]
        assert values == sorted(values)
        assert {step["color"] for step in steps} <= COLOURS
        assert panel["targets"]
        references = [target["refId"] for target in panel["targets"]]
        assert len(references) == len(set(references))
        assert all(target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_legend_of_a_panel_names_labels_that_its_series_have(path: Path) -> None:
    for panel in panels(path):
        for target in panel["targets"]:
            labels = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            known = set.union(
                *(set(expressions.series()[each.name]) for each in expressions.selectors(target["expr"]))
            )
            grouped = expressions.grouping(target["expr"])
            assert labels <= (grouped or known), (panel["title"], target["expr"])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_panels_have_places_of_their_own(path: Path) -> None:
    taken: set[tuple[int, int]] = set()
    everything = model(path)["panels"]
    assert [panel["id"] for panel in everything] == list(range(1, len(everything) + 1))
    for panel in everything:
        assert panel["type"] in KINDS
        place = panel["gridPos"]
        assert place["x"] >= 0 and place["x"] + place["w"] <= 24
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        taken |= cells


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_links_lead_to_dashboards_that_exist(path: Path) -> None:
    links = [link["url"] for panel in panels(path) for link in panel["links"]]
    assert {link.split("?")[0].removeprefix("/d/") for link in links} <= UIDS
    (menu,) = model(path)["links"]
    assert menu["tags"] == model(path)["tags"] == ["culm"]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_a_dashboard_is_of_the_version_of_the_model_that_it_names(path: Path) -> None:
    loaded = model(path)
    assert loaded["schemaVersion"] == SCHEMA_VERSION
    assert loaded["uid"] == path.stem
    assert len(loaded["uid"]) <= 40
    assert loaded["title"].startswith("Culm / ")
    assert "id" not in loaded, "Grafana gives it one"


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_grafana_s_own_types_read_a_dashboard_and_write_it_unchanged(path: Path) -> None:
    dashboard = pytest.importorskip("grafana_foundation_sdk.models.dashboard")
    pytest.importorskip("grafana_foundation_sdk.cog.plugins").register_default_plugins()
    encoder = pytest.importorskip("grafana_foundation_sdk.cog.encoder").JSONEncoder()
    written = json.loads(encoder.encode(dashboard.Dashboard.from_json(model(path))))
    assert set(differences(model(path), written)) <= UNTYPED


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """The paths of fields of `before` that `after` does not have as they are."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name, value in before.items():
            yield from differences(value, after.get(name), f"{path}.{name}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for first, second in zip(before, after, strict=True):
            yield from differences(first, second, path)
    elif before != after:
        yield path


def test_provisioning_names_the_data_source_and_the_folder_of_dashboards() -> None:
    folder = FOLDER.parent / "provisioning"
    sources = yaml.safe_load((folder / "datasources" / "culm.yaml").read_text(encoding="utf-8"))
    (source,) = sources["datasources"]
    assert (source["type"], source["isDefault"]) == ("prometheus", True)
    providers = yaml.safe_load((folder / "dashboards" / "culm.yaml").read_text(encoding="utf-8"))
    (provider,) = providers["providers"]
    page = (ROOT / "docs" / "deploy" / "monitoring.md").read_text(encoding="utf-8")
    assert provider["options"]["path"] in page
