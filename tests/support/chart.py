"""The chart as helm renders it, for tests that need no cluster.

helm is the one on PATH, or the one that ``tools/kubernetes_clients.py`` downloads.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Document = dict[str, Any]

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "walras"
CLIENTS = Path(os.environ.get("WALRAS_CLIENTS") or Path.home() / ".cache" / "walras-clients")
HELM = shutil.which("helm") or shutil.which("helm", path=CLIENTS) or ""

NAMESPACE = "walras-system"
MONITORING = ("monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule")
POLICIES = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"

needs_helm = pytest.mark.skipif(
    not HELM, reason="needs helm: put it on PATH, or run tools/kubernetes_clients.py"
)


class HelmError(Exception):
    """An error with which helm ended; the message is its output."""


def helm(*arguments: str, text: str | None = None, **options: Any) -> str:
    """Run helm, and return its output.

    Args:
        arguments: Arguments of helm.
        text: Input of helm.
        options: Further options of `subprocess.run`.

    Raises:
        HelmError: helm ended with an error.
    """
    command = [HELM, *arguments]
    options |= {"capture_output": True, "text": True}
    done = subprocess.run(command, check=False, input=text, **options)
    if done.returncode:
        raise HelmError(f"{done.stdout}{done.stderr}")
    return str(done.stdout)


def rendered(
    values: Document | None = None, version: str = "1.37.0", apis: Sequence[str] = ()
) -> list[Document]:
    """Return all objects of the chart.

    Args:
        values: Values that differ from the chart's defaults.
        version: Version of Kubernetes.
        apis: API versions that the cluster has besides Kubernetes' own.
    """
    return list(_rendered(json.dumps(values or {}), version, tuple(apis)))


@cache
def _rendered(values: str, version: str, apis: tuple[str, ...]) -> tuple[Document, ...]:
    known = [argument for each in apis for argument in ("--api-versions", each)]
    where = ["--namespace", NAMESPACE, "--kube-version", version, *known]
    text = helm("template", "walras", str(CHART), *where, "--values", "-", text=values)
    return tuple(each for each in yaml.safe_load_all(text) if each)


def of_kind(kind: str, documents: Sequence[Document]) -> dict[str, Document]:
    """Return the documents of a kind, by name."""
    return {each["metadata"]["name"]: each for each in documents if each["kind"] == kind}


def events(document: Document) -> str:
    """Return the events of helm at which it creates a hook; empty if the object is no hook."""
    annotations = document["metadata"].get("annotations") or {}
    return str(annotations.get("helm.sh/hook", ""))


def pods(documents: Sequence[Document]) -> Iterator[tuple[str, Document]]:
    """Yield the kind and name of each object that creates pods, and the spec of these pods."""
    for each in documents:
        name = f"{each['kind']} {each['metadata']['name']}"
        if each["kind"] in {"Deployment", "DaemonSet", "Job"}:
            yield name, each["spec"]["template"]["spec"]
        elif each["kind"] == "Pod":
            yield name, each["spec"]
