"""A market on a real API server in which pods wait for their nodes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import yaml

from market_cluster import OURS, SYSTEM, MarketCluster
from walras_api.cluster import Pod
from walras_api.contract import COLOCATION_GATE
from walras_api.parse import parse_object
from worlds import entitlement, job, market, node, pod

Document = dict[str, Any]
SOCKETS = 4


class Waiting:
    """A market in which pods wait.

    Args:
        kubeconfig: Administrator's kubeconfig of the cluster.
        folder: Folder for files of the test.
    """

    def __init__(self, kubeconfig: str, folder: Path) -> None:
        self.name = f"c-{time.time_ns() % 10**10}"
        self.cluster = MarketCluster(kubeconfig, folder)
        self.nodes = [f"{self.name}-{number}" for number in range(3)]

    def begin(self, **colocation: Any) -> None:
        cluster = self.cluster
        cluster.namespace(self.name)
        rules = {"policy": "StableRoommates", **colocation}
        labelled = [node(name, "16") for name in self.nodes]
        for each in labelled:
            each["metadata"]["labels"] = {"walras.dev/sockets": str(SOCKETS)}
        cluster.make(
            market(colocation=rules, epochSeconds=2),
            entitlement(self.name, namespaces=[self.name]),
            *labelled,
            *(job(name, self.name, self.name) for name in "ab"),
        )
        cluster.agents_live(self.nodes)

    def is_going(self) -> bool:
        """Return whether the namespace of Walras is being deleted, so that it cannot be used."""
        found = self.cluster.read(f"/api/v1/namespaces/{SYSTEM}")
        return found is not None and found["status"]["phase"] != "Active"

    def powerless(self, folder: Path) -> str:
        """Write a kubeconfig of a ServiceAccount without any rights, and return its path."""
        path = f"/api/v1/namespaces/{self.name}/serviceaccounts/default/token"
        answer = self.cluster.api.request("POST", path, {"spec": {"audiences": []}})
        token = {"token": answer["status"]["token"]}
        document = yaml.safe_load(Path(self.cluster.kubeconfig).read_text())
        document["users"] = [{"name": each["name"], "user": token} for each in document["users"]]
        found = folder / "powerless"
        found.write_text(yaml.safe_dump(document))
        return str(found)

    def pods(self, *names: str, app: str = "a", cpu: str = "1", **spec: Any) -> None:
        """Create pods that name Walras as their scheduler, or that wait as their spec says."""
        for name in names:
            made = pod(name, app, None, namespace=self.name, cpu=cpu)
            made["spec"] |= spec or {"schedulerName": COLOCATION_GATE}
            made["status"] = None
            self.cluster.make(made)

    def path(self, pod: str) -> str:
        """Return the path of a pod in the API."""
        return f"/api/v1/namespaces/{self.name}/pods/{pod}"

    def read(self, pod: str) -> Pod:
        """Return a pod as the operator sees it."""
        document = self.cluster.api.request("GET", self.path(pod))
        found = parse_object({"apiVersion": "v1", "kind": "Pod", **document})
        assert isinstance(found, Pod)
        return found

    def placed(self) -> dict[str, str]:
        """Return the node of each pod that has one, by the pod's name."""
        path = f"/api/v1/namespaces/{self.name}/pods"
        found = self.cluster.api.request("GET", path)["items"]
        return {
            each["metadata"]["name"]: each["spec"]["nodeName"]
            for each in found
            if each["spec"].get("nodeName")
        }

    def told(self, job_: str) -> dict[str, Document]:
        path = f"{OURS}/namespaces/{self.name}/marketjobs/{job_}"
        status = (self.cluster.read(path) or {}).get("status", {})
        return {each["name"]: each for each in status.get("pods", ())}

    def partners_are_together(self) -> bool:
        """Return whether every pod is on the node of the partner that its job's status names."""
        everybody = self.told("a") | self.told("b")
        placed = self.placed()
        return all(
            placed[name] == placed[each["colocation"]["partner"].split("(")[1].strip(")")]
            for name, each in everybody.items()
            if "partner" in each.get("colocation", {})
        )
