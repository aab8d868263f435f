"""Measure how long after `kubectl label` a running Job is in `walras top`, and on its own cores.

    KUBECONFIG=... WALRAS_KUBE=... python benchmarks/label_to_top.py

The cluster is one whose only node is this machine (`CONTRIBUTING.md`); images are those of
``make images``. The chart is installed, and everything is removed in the end. Times are those that
a user sees, so they include the start of `kubectl` and of `walras`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from cluster_tools import Node, ToolError, apply, get, helm, kubectl, pods
from shared_node import PROGRAM, entitlement, namespace, values

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[1]
TEAM = "label-to-top"
IMAGE = "localhost/walras-agent:0.1.0"
JOBS = 10
LONGEST = 60.0  # seconds


def main() -> None:
    """Install, measure, print, and remove everything."""
    node = Node()
    for archive in sorted((ROOT / "build" / "images").glob("walras-*.tar")):
        node.load(archive)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        chosen = values(node)
        # Other pods need a core, too.
        chosen["market"]["spec"]["cores"]["reservedCores"] = 1
        json.dump(chosen, file)
        file.flush()
        chart = str(ROOT / "helm" / "walras")
        helm(
            *("upgrade", "--install", "walras", chart, "--create-namespace", "--wait"),
            *("--timeout", "10m", "--values", file.name),
        )
    try:
        apply(namespace(TEAM), entitlement(TEAM, 1))
        figures = [measured(f"train-{number}") for number in range(JOBS)]
    finally:
        kubectl("delete", "namespace", TEAM, "--wait=false")
        kubectl("delete", "entitlement", TEAM)
        helm("uninstall", "walras", "--wait")
    for index, what in enumerate(("in `walras top`", "on its own cores")):
        seconds = [each[index] for each in figures]
        print(
            f"{what}: median {statistics.median(seconds):.1f} s, longest {max(seconds):.1f} s "
            f"after `kubectl label` ({len(seconds)} Jobs)"
        )


def measured(name: str) -> tuple[float, float]:
    """Return the seconds until a labelled Job is in the table, and until its pod has its cores."""
    container = {"name": "main", "image": IMAGE, "command": ["python3", "-c", PROGRAM]}
    spec = {"hostNetwork": True, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    template = {"spec": {**spec, "containers": [{**container, "imagePullPolicy": "Never"}]}}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": template}}
    apply({**job, "metadata": {"name": name, "namespace": TEAM}})
    selector = f"job-name={name}"
    wait(
        f"{name} runs",
        lambda: any(each["status"]["phase"] == "Running" for each in pods(TEAM, selector)),
    )
    began = time.monotonic()
    kubectl("label", "job", name, "-n", TEAM, "walras.dev/job=")
    listed = wait(f"{name} is listed", lambda: row(name) is not None) - began
    enforced = wait(f"{name} is enforced", lambda: (row(name) or {}).get("enforced") == 1) - began
    kubectl("delete", "job", name, "-n", TEAM)
    path = f"/apis/walras.dev/v1alpha1/namespaces/{TEAM}/marketjobs/{name}"
    wait(f"MarketJob {name} is gone", lambda: not get(path))
    return listed, enforced


def row(name: str) -> dict[str, Any] | None:
    """Return the row of a job in `walras top`."""
    command = [sys.executable, "-m", "walras_cli", "top", "jobs", "-n", TEAM, "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)["jobs"]
    return next((each for each in rows if each["name"] == name), None)


def wait(what: str, condition: Callable[[], bool]) -> float:
    """Return the time at which a condition holds."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() > began + LONGEST:
            sys.exit(f"{what}: not after {LONGEST:.0f} s")
        time.sleep(0.1)
    return time.monotonic()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        try:
            main()
        except ToolError as error:
            sys.exit(str(error))
