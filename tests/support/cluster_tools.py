"""A cluster with a real node, used with an administrator's tools: kubectl, helm, the node's shell.

``KUBECONFIG`` names an administrator's kubeconfig. ``WALRAS_KUBE`` names a program that loads an
image into the node's runtime (``image ARCHIVE``), and kills and starts kubelet, containerd and
apiserver (``restart PART``).
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from live_api import API, RefusedError
from node_cgroups import NodeCgroups

ROOT = Path(__file__).parents[2]
SYSTEM = "walras-system"

KUBECONFIG = os.environ.get("KUBECONFIG", "")
KUBE = os.environ.get("WALRAS_KUBE", "")

Document = dict[str, Any]


class ToolError(Exception):
    """A failure of a command; the message has the command and its output."""


def run(*command: str, stdin: str | None = None) -> str:
    """Run a command, and return its output.

    Raises:
        ToolError: The command failed.
    """
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise ToolError(f"{' '.join(command[:8])}: {said}")
    return done.stdout


@cache
def clients() -> Path:
    """Return the folder with kubectl and helm, which are downloaded if they are not there."""
    return Path(run(sys.executable, str(ROOT / "tools/kubernetes_clients.py")).strip())


def kubectl(*arguments: str, stdin: str | None = None) -> str:
    """Run kubectl and return its output."""
    return run(str(clients() / "kubectl"), *arguments, stdin=stdin)


def helm(*arguments: str) -> str:
    """Run helm in the namespace of Walras."""
    return run(str(clients() / "helm"), "--namespace", SYSTEM, *arguments)


def apply(*documents: Document) -> None:
    """Apply documents as a user does."""
    everything = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
    kubectl("apply", "--filename", "-", stdin=json.dumps(everything))


@cache
def api() -> API:
    return API.connect()


def get(path: str) -> Document:
    """Return an object or a list of the API server; an empty one if it does not exist."""
    try:
        return api().call("GET", path)
    except RefusedError as refused:
        if refused.code != 404:
            raise
        return {}


def answers() -> bool:
    """Return whether the API server answers."""
    try:
        return bool(api().call("GET", "/api/v1/namespaces/default"))
    except Exception:  # noqa: BLE001 - whatever it is, there is no answer
        return False


def pods(namespace: str, labels: str = "") -> list[Document]:
    """Return the pods of a namespace that are not being deleted, sorted by name."""
    found = get(f"/api/v1/namespaces/{namespace}/pods?labelSelector={labels}").get("items", ())
    staying = [each for each in found if "deletionTimestamp" not in each["metadata"]]
    return sorted(staying, key=lambda each: str(each["metadata"]["name"]))


def containers(pod: Document) -> list[str]:
    """Return the IDs of a pod's running containers."""
    return [
        each["containerID"].rpartition("/")[2]
        for each in pod.get("status", {}).get("containerStatuses", ())
        if "running" in each.get("state", {})
    ]


def ready(document: Document) -> bool:
    """Return whether an object's condition Ready is true."""
    return any(
        each["type"] == "Ready" and each["status"] == "True"
        for each in document.get("status", {}).get("conditions", ())
    )


class Node:
    """The node that this machine is.

    Args:
        without: Name of a node of the cluster that is another machine.

    Attributes:
        name: Name of the node in the cluster.
        cgroups: Cgroups of the node.
    """

    def __init__(self, without: str = "") -> None:
        names = [str(each["metadata"]["name"]) for each in get("/api/v1/nodes")["items"]]
        nodes = [name for name in names if name != without]
        if len(nodes) != 1:
            raise ToolError(f"KUBECONFIG: nodes are {nodes}; name a cluster of this machine")
        self.name = nodes[0]
        self.cgroups = NodeCgroups.here()

    def load(self, archive: Path) -> None:
        """Load an image from an archive into the node's runtime."""
        self._do("image", str(archive))

    def restart(self, part: str) -> None:
        """Kill kubelet, containerd or apiserver, and start it again."""
        self._do("restart", part)

    def _do(self, *arguments: str) -> None:
        where = os.environ | {"KUBE_RUN": str(Path(KUBECONFIG).parent)}
        with Path(os.devnull).open("r+b") as nothing:  # what is started would keep a pipe open
            subprocess.run([KUBE, *arguments], check=True, env=where, stdin=nothing, stdout=nothing)

    def kill(self, pod: Document) -> None:
        """Kill all processes of a pod's containers, as a crash does."""
        groups = self.cgroups.containers()
        for container in containers(pod):
            if container in groups:
                for process in self.cgroups.processes(groups[container]):
                    with suppress(ProcessLookupError):
                        os.kill(process, signal.SIGKILL)

    def kubelet_folders(self) -> dict[str, str]:
        """Return where the node's kubelet has its folders, as values of the chart."""
        for process in psutil.process_iter(["cmdline"]):
            line = process.info["cmdline"] or [""]
            if Path(line[0]).name == "kubelet":
                options = dict(each.split("=", 1) for each in line if "=" in each)
                root = options.get("--root-dir", "/var/lib/kubelet")
                config = Path(options.get("--config", root + "/config.yaml")).parent
                outside = not config.is_relative_to(root)
                return {"folder": root, "configFolder": str(config) if outside else ""}
        raise ToolError("no kubelet runs on this machine")
