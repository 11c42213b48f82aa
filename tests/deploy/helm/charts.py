"""Rendered manifests of the Helm chart, and what is in them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from tests.deploy.tools import ROOT, go_tool, run

CHART = ROOT / "infra" / "deploy" / "helm" / "culm"
VALUES = ("one-node", "production", "all")
KUBERNETES = "1.37.0"
NAMESPACE = "reef"
Manifest = dict[str, Any]


def helm(*arguments: object) -> CompletedProcess[str]:
    """Run Helm; its own folders are those of the tools, not the user's."""
    program = go_tool("helm.sh/helm/v4/cmd/helm", "v4.3.1")
    home = {f"HELM_{name}_HOME": str(program.parent / name.lower()) for name in ("CACHE", "CONFIG", "DATA")}
    return run(program, *arguments, environment=home)


@functools.cache
def template(values: str, *extra: str) -> CompletedProcess[str]:
    """Render the chart with `values-<values>.yaml` and further arguments."""
    file = CHART / f"values-{values}.yaml"
    version = ("--kube-version", KUBERNETES)
    return helm("template", "culm", CHART, "--namespace", NAMESPACE, *version, "--values", file, *extra)


def manifests(values: str, *extra: str) -> list[Manifest]:
    """Return the rendered manifests."""
    done = template(values, *extra)
    assert done.returncode == 0, done.stderr
    return [document for document in yaml.safe_load_all(done.stdout) if document]


def of_kind(documents: Sequence[Manifest], *kinds: str) -> list[Manifest]:
    """Return the manifests of these kinds."""
    return [document for document in documents if document["kind"] in kinds]


def named(documents: Sequence[Manifest], kind: str, name: str) -> Manifest:
    """Return one manifest."""
    (document,) = (each for each in of_kind(documents, kind) if each["metadata"]["name"] == name)
    return document


def pods(documents: Sequence[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Return the name and the pod template of every workload, and the template of executors' pods."""
    for document in documents:
        name = f"{document['kind']}/{document['metadata']['name']}"
        if document["kind"] == "ConfigMap" and "pod.yaml" in document["data"]:
            yield name, yaml.safe_load(document["data"]["pod.yaml"])
        elif isinstance(document.get("spec"), dict) and "template" in document["spec"]:
            yield name, document["spec"]["template"]


def containers(pod: Manifest) -> list[Manifest]:
    """Return the containers of a pod, those of its start included."""
    return [*pod["spec"].get("initContainers", []), *pod["spec"]["containers"]]


def selects(selector: Mapping[str, str], pod: Manifest) -> bool:
    """Return whether a selector of labels selects a pod."""
    labels: dict[str, str] = pod["metadata"]["labels"]
    return selector.items() <= labels.items()


def plain_variables(container: Manifest) -> dict[str, str]:
    """Return the variables of a container that have their value in the manifest."""
    return {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}


def inside(folder: Path, text: str) -> str:
    """Return a text whose paths of the pod lead into a folder of this machine."""
    for root in ("/etc/culm", "/var/lib/culm", "/run/secrets/culm"):
        text = text.replace(root, f"{folder}{root}")
    return text
